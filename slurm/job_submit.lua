-- SPDX-License-Identifier: Apache-2.0
--
-- For Slurm's plugin job_submit/lua: jobs with a comment that begins with "ckpt" (sbatch
-- --comment=ckpt:seconds=3600,mb=2000) wait for ckpt-schedd, which decides where they run. It puts their
-- begin off again and again. Where it does not, because it has died or was never started, their begin
-- comes, and Slurm schedules them as any other job.
--
-- In slurm.conf: JobSubmitPlugins=lua; this file beside it. GRACE is the option --grace of ckpt-schedd.
local GRACE = 120

local function is_tagged(comment)
  return comment == "ckpt" or comment:sub(1, 5) == "ckpt:"
end

function slurm_job_submit(job, partitions, user)
  local comment = job.comment or ""
  -- A begin of the job's own is kept, and the job is left to Slurm.
  local has_begin = job.begin_time ~= nil and job.begin_time > os.time()
  -- ckpt-schedd plans no arrays.
  local is_array = job.array_inx ~= nil and job.array_inx ~= ""
  if is_tagged(comment) and not has_begin and not is_array and not comment:find("[:,]held") then
    job.begin_time = os.time() + GRACE
    job.comment = comment .. (comment == "ckpt" and ":" or ",") .. "held"
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
  return slurm.SUCCESS
end

return slurm.SUCCESS
