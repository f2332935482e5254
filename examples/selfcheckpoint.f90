! SPDX-License-Identifier: Apache-2.0
!
! A Fortran program that checkpoints itself after every 10 of 40 steps. The first command runs it, the second one
! continues from its last image:
!
!   ckpt-run ./selfcheckpoint
!   ckpt-restore self.ckpt
!
! With STOP=1 in the environment it ends at the first checkpoint and can only be restored. Without ckpt-run it computes
! the same and writes no image.
program selfcheckpoint
  use ckpt
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
  integer, parameter :: cells = 2**18, steps = 40, every = 10
  integer(int64), allocatable :: cell(:)
  integer(int64), allocatable, target :: scratch(:)
  integer(c_size_t) :: bytes
  integer :: step, code, flags, length

  allocate(cell(cells), scratch(cells))
  cell = [(int(step, int64), step = 1, cells)]
  bytes = int(size(scratch) * storage_size(scratch) / 8, c_size_t)
  flags = ckpt_overwrite
  call get_environment_variable('STOP', length=length)
  if (length > 0) flags = flags + ckpt_stop

  ! Computed anew in every step, so the image need not contain it.
  code = ckpt_exclude(c_loc(scratch(1)), bytes)
  do step = 1, steps
    scratch = modulo(cell + 3 * cshift(cell, 1) + step, 1000003_int64)
    cell = scratch
    if (modulo(step, every) == 0 .and. step < steps) call checkpoint(step)
  end do
  code = ckpt_include(c_loc(scratch(1)), bytes)
  print '(a, i0)', 'result ', sum(cell)

contains

  subroutine checkpoint(step)
    integer, intent(in) :: step
    type(ckpt_result) :: result

    select case (ckpt_checkpoint('self.ckpt', flags, result))
    case (ckpt_continued)
      print '(a, i0, a)', 'step ', step, ': image written'
    case (ckpt_restored)
      print '(a, i0, a)', 'step ', step, ': restored'
    case default
      print '(a, i0, 2a)', 'step ', step, ': no checkpoint: ', ckpt_last_error()
    end select
    flush(6)
  end subroutine

end program
