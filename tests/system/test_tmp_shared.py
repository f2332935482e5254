import pytest
from test_remote_cuda import *
from test_remote_cuda import nodes, same_as_natively
from cuda_programs import make

@pytest.mark.parametrize("source", ["kernels.cu","launches.cu","language.cu","accesses.cu","matrices.cu","hopper.cu","differential.cu","streams.cu"])
def test_it(nodes, source):
    same_as_natively(nodes, source)
