"""python ray_submit.py ADDRESS FOLDER ID ENTRYPOINT: submit a job as Ray's job server does, to run
where the resource `home` is.

The server itself is part of the dashboard, which clusters of tests do not have.
"""

import asyncio
import sys

import ray
from ray._private.worker import global_worker
from ray.dashboard.modules.job.job_manager import JobManager


async def submit(folder, ident, entrypoint):
    manager = JobManager(global_worker.gcs_client, folder)
    await manager.submit_job(
        entrypoint=entrypoint, submission_id=ident, entrypoint_resources={"home": 0.001}
    )
    print("submitted", flush=True)
    await asyncio.sleep(3600)


address, *words = sys.argv[1:]
ray.init(address=address, namespace="submissions", log_to_driver=False)
asyncio.run(submit(*words))
