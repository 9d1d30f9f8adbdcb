"""Lines as libraries write them, with the mode that each is; and lines that are none."""

from __future__ import annotations

KNOWN: list[tuple[str, str]] = [
    (
        "abi_undefined_symbol",
        "ImportError: /usr/local/lib/python3.10/dist-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
    ),
    (
        "abi_undefined_symbol",
        "ImportError: /opt/venv/lib/python3.12/site-packages/vllm/_C.abi3.so: undefined symbol: _ZN3c106ivalue14ConstantString6createENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    ),
    (
        "abi_undefined_symbol",
        "OSError: /usr/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister",
    ),
    (
        "benign_destroy_pg_warning",
        "[rank0]:[W1114 10:12:13.123456789 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal program exit, the application should call destroy_process_group to ensure that any pending NCCL operations have finished in this process. In rare cases this process can exit before this point and block the progress of another member of the process group. This constraint has always been present,  but this warning has only been added since PyTorch 2.4 (function operator())",
    ),
    (
        "benign_destroy_pg_warning",
        "[rank0]:[W822 05:01:12.3 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources. For more info, please see https://pytorch.org/docs/stable/distributed.html#shutdown (function operator())",
    ),
    (
        "benign_ds_overflow_early",
        "[2023-05-04 12:00:01,123] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
    ),
    (
        "benign_ds_overflow_early",
        "[deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 4294967296.0, reducing to 4294967296.0",
    ),
    (
        "benign_ds_overflow_early",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
    ),
    (
        "benign_omp_num_threads",
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application as needed.",
    ),
    (
        "benign_tokenizers_fork",
        "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...",
    ),
    (
        "benign_tokenizers_fork",
        "\t- Explicitly set the environment variable TOKENIZERS_PARALLELISM=(true | false)",
    ),
    (
        "benign_ray_metrics_agent",
        "[2025-11-01 10:00:00,123 W 4711 4790] metric_exporter.cc:105: [1] Export metrics to agent failed: RpcError: RPC Error message: failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:58391: Failed to connect to remote host: Connection refused; RPC Error details: . This won't affect Ray, but you can lose metrics from the cluster.",
    ),
    (
        "cuda_oom_via_ray",
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_rollout_update_actor() (pid=12345, ip=10.0.0.3, actor_id=abc, repr=<verl.single_controller.ray.base.WorkerDict object at 0x7f>)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB",
    ),
    (
        "cuda_oom_via_ray",
        'ray.exceptions.RayTaskError(OutOfMemoryError): ray::train() (pid=99, ip=10.1.1.1)\n  File "/x/train.py", line 10, in f\n    y = x @ x\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.69 GiB total capacity; 22.1 GiB already allocated)',
    ),
    (
        "disk_quota",
        "OSError: [Errno 122] Disk quota exceeded: '/home/me/.cache/huggingface/hub/models--x/blobs/abc.incomplete'",
    ),
    (
        "disk_quota",
        "RuntimeError: [enforce fail at inline_container.cc:595] . unexpected pos 1472 vs 1366 ... OSError: [Errno 122] Disk quota exceeded",
    ),
    (
        "disk_full",
        "OSError: [Errno 28] No space left on device: '/scratch/checkpoints/step_1000/model.pt'",
    ),
    (
        "disk_full",
        "RuntimeError: [enforce fail at inline_container.cc:424] . unexpected pos 3584 vs 3478",
    ),
    ("disk_full", "tar: model.bin: Cannot write: No space left on device"),
    (
        "fp16_loss_scale_exhausted",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
    ),
    (
        "fp16_loss_scale_exhausted",
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding. Try lowering the learning rate, using gradient clipping or increasing the batch size.",
    ),
    (
        "ipv6_address_family_warning",
        "[W socket.cpp:601] [c10d] The client socket cannot be initialized to connect to [localhost]:29500 (errno: 97 - Address family not supported by protocol).",
    ),
    (
        "ipv6_address_family_warning",
        "[W1114 10:00:00.1 socket.cpp:697] [c10d] The IPv6 network addresses of (node-0, 29500) cannot be retrieved (gai error: -2 - Name or service not known).",
    ),
    (
        "k8s_oomkilled",
        "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137",
    ),
    ("k8s_oomkilled", "train-worker-0   0/1     OOMKilled   3 (22s ago)   5m"),
    (
        "k8s_oomkilled",
        "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1234kB, anon-rss:1234kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:985",
    ),
    (
        "nccl_shm_full",
        "node1:123:456 [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
    ),
    (
        "nccl_shm_full",
        "a:1:2 [3] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-abc123 to 33030532 bytes, error: No space left on device (28)",
    ),
    (
        "nccl_shm_full",
        "Error while creating shared memory segment /dev/shm/nccl-zb3Yff (size 9637888)",
    ),
    (
        "nccl_socket_ifname_bad_family",
        "ncclInternalError: Internal check failed.\nLast error:\nncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
    ),
    (
        "nccl_system_error",
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1275, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.14.3\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
    ),
    (
        "nccl_system_error",
        "RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:784, unhandled system error, NCCL version 2.7.8",
    ),
    (
        "nccl_system_error_no_route",
        "node2:991:1200 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.3.4<45571> failed : No route to host",
    ),
    (
        "nccl_system_error_no_route",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\nLast error:\nsocketStartConnect: Connect to 192.168.1.2<33131> failed : No route to host",
    ),
    (
        "nccl_watchdog_terminate",
        "(RayWorkerVllm pid=5304) [E ProcessGroupNCCL.cpp:916] [Rank 7] NCCL watchdog thread terminated with exception: CUDA error: unknown error",
    ),
    (
        "nccl_watchdog_terminate",
        "[rank3]:[E1114 10:00:00.1 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure",
    ),
    (
        "nccl_watchdog_terminate",
        "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [Rank 1] NCCL watchdog thread terminated with exception: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800738 milliseconds before timing out.",
    ),
    (
        "nccl_watchdog_timeout_desync",
        "[rank0]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=101, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n[rank1]:[E101 10:00:00.2 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=102, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600062 milliseconds before timing out.",
    ),
    (
        "ray_actor_died_oom",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nThe actor is dead because its worker process was killed by the memory monitor: Memory on the node (IP: 10.0.0.1, ID: abc) where the actor was running was 60.1GB / 62.0GB (0.96), which exceeds the memory usage threshold of 0.95.",
    ),
    (
        "ray_actor_died_oom",
        "The actor died because its node was running low on memory: Memory on the node (IP: 10.0.0.9) was 250GB / 256GB (0.97), which exceeds the memory usage threshold of 0.95. Ray killed this worker because it was the most recently scheduled task",
    ),
    (
        "ray_node_oom",
        "Memory on the node (IP: 10.0.0.1, ID: abc) where the task (actor ID: x, name=Foo.__init__, pid=1, memory used=10GB) was running was 30.1GB / 31.0GB (0.97), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 1) because it was the most recently scheduled task",
    ),
    (
        "ray_node_oom",
        "(raylet) node_manager.cc:2963: System memory low at node with IP 172.17.0.2. Used memory (23.63GB) / total capacity (33.28GB) (0.709971) exceeds threshold 0.7, killing latest task with name x to avoid running out of memory.",
    ),
    (
        "ray_actor_killed_by_ray_kill",
        "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\nThe actor is dead because it was killed by `ray.kill`.",
    ),
    (
        "ray_misleading_k8s_memory",
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code None. The worker may have exceeded K8s pod memory limits.",
    ),
    (
        "ray_misleading_k8s_memory",
        "SystemExit was raised from the worker. The worker may have exceeded K8s pod memory limits.",
    ),
    (
        "ray_node_marked_dead_by_gcs",
        "[2022-09-16 13:13:46,502 C 2116 2116] (raylet) node_manager.cc:999: [Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS: GCS didn't receive heartbeats from this node for 30000 ms. This is likely because the machine or raylet has become overloaded.",
    ),
    (
        "ray_worker_died_sigkill",
        "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. Check python-core-worker-*.log files for more information.",
    ),
    (
        "ray_worker_died_sigkill",
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. RayTask ID: ffff Worker ID: 1 Node ID: 2 Worker IP address: 10.0.0.1 Worker port: 1 Worker PID: 4711 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called.",
    ),
    ("rendezvous_closed", "torch.distributed.elastic.rendezvous.api.RendezvousClosedError"),
    (
        "rendezvous_closed",
        "raise RendezvousClosedError(\ntorch.distributed.elastic.rendezvous.api.RendezvousClosedError: The rendezvous 'myjob' has been closed.",
    ),
    (
        "rendezvous_worldsize_mismatch",
        "RuntimeError: the new group's world size should be less or equal to the world size set by init_process_group",
    ),
    (
        "rendezvous_worldsize_mismatch",
        "AssertionError: world_size (16) is not divisible by tensor_model_parallel_size (3)",
    ),
    (
        "rendezvous_worldsize_mismatch",
        "ValueError: world size (6) is not equal to tp_size (4) x pp_size (2)",
    ),
    (
        "rendezvous_clients_missing",
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for key: store_based_barrier_key:1 (world_size=8, worker_count=6, timeout=0:30:00)",
    ),
    (
        "rendezvous_connect_timeout",
        "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (10.0.0.1, 29500). The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500).",
    ),
    (
        "sglang_not_enough_memory",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    (
        "sglang_not_enough_memory",
        '[2025-07-02 07:41:59 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File "/x.py", line 1, in f\n    g()\nRuntimeError: Not enough memory. Please try increasing --mem-fraction-static. Current value: self.server_args.mem_fraction_static=0.7',
    ),
    (
        "shm_full_no_space_multiprocessing",
        "OSError: [Errno 28] No space left on device: '/psm_7b0b5c3e'",
    ),
    (
        "shm_full_no_space_multiprocessing",
        "RuntimeError: unable to write to file </torch_12345_678901_0>: No space left on device (28)",
    ),
    (
        "slurm_step_cancelled",
        "slurmstepd: error: *** STEP 123.0 ON node01 CANCELLED AT 2024-01-02T03:04:05 ***",
    ),
    (
        "slurm_step_cancelled",
        "slurmstepd: error: *** JOB 4711 ON gpu-3 CANCELLED AT 2024-01-02T03:04:05 ***\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    ),
    (
        "slurm_time_limit",
        "slurmstepd: error: *** JOB 123 ON node01 CANCELLED AT 2024-01-02T03:04:05 DUE TO TIME LIMIT ***",
    ),
    (
        "torchrun_child_failed",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n============================================================\ntrain.py FAILED\n------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n  time      : 2024-05-04_12:00:00\n  host      : node1\n  rank      : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 4711)\n  error_file: <N/A>",
    ),
    (
        "torchrun_child_failed",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 1234) of binary: /usr/bin/python3",
    ),
    (
        "vllm_engine_failed",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_0': 1}",
    ),
    (
        "vllm_engine_failed",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
    ),
    (
        "vllm_worker_hang",
        "(EngineCore_0 pid=99) INFO 09-01 10:00:00 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 second.",
    ),
    ("vllm_worker_hang", "TimeoutError: RPC call to execute_model timed out."),
    (
        "xid_13_app",
        "NVRM: Xid (PCI:0000:3b:00): 13, pid=1234, name=python, Graphics Exception: ESR 0x504730=0xc0c000e 0x504734=0x0",
    ),
    (
        "xid_45_preemptive_removal",
        "[12345.6] NVRM: Xid (PCI:0000:3b:00): 45, pid=4711, name=python3, Ch 00000008",
    ),
    (
        "xid_79_off_bus",
        "kernel: NVRM: GPU at PCI:0000:5e:00: GPU-1234\nkernel: NVRM: Xid (PCI:0000:5e:00): 79, pid=99, GPU has fallen off the bus.",
    ),
    ("nan_loss", "step 120/1000 | loss: nan | lr 1.0e-4"),
    ("nan_loss", "{'loss': nan, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': 0.1}"),
    (
        "nan_loss",
        " iteration      120/    1000 | consumed samples:  1200 | lm loss: NAN | loss scale: 1.0 |",
    ),
    ("nan_grad_norm", "{'loss': 1.2, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.01}"),
    (
        "cuda_illegal_access",
        "RuntimeError: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1.\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    ),
    ("cuda_device_assert", "RuntimeError: CUDA error: device-side assert triggered"),
    ("ecc_uncorrectable_cuda", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    (
        "glibc_mismatch",
        "ImportError: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /x/_C.so)",
    ),
    (
        "gloo_connect_failed",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:52345: Connection refused",
    ),
    (
        "gloo_connect_failed",
        "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to find address for: eth0",
    ),
    (
        "hf_gated_repo",
        "OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/meta-llama/Llama-3.1-8B.",
    ),
    (
        "hf_rate_limit",
        "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/models/x",
    ),
    (
        "host_oom_kernel",
        "kernel: python invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
    ),
    (
        "cgroup_oom_slurm",
        "slurmstepd: error: Detected 3 oom_kill events in StepId=99.0. Some of the step tasks have been OOM Killed.",
    ),
    ("cgroup_oom_slurm", "srun: error: node12: task 7: Out Of Memory"),
    ("cgroup_oom_slurm", "slurmstepd: error: Exceeded step memory limit at some point."),
    ("thread_limit", "RuntimeError: can't start new thread"),
    (
        "thread_limit",
        "OpenBLAS blas_thread_init: pthread_create failed for thread 63 of 64: Resource temporarily unavailable",
    ),
    (
        "nccl_remote_closed",
        "[rank3]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2251, remote process exited or there was a network error, NCCL version 2.21.5\n[rank3]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ),
    (
        "nccl_ib_completion_error",
        "node3:1:2 [5] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.1.2.3<51234> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_4",
    ),
    (
        "nccl_heartbeat_stuck",
        "[rank5]:[F1114 10:00:00.1 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank 5] [PG ID 0 PG GUID 0(default_pg) Rank 5] Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
    ),
    (
        "nccl_heartbeat_stuck",
        "[PG 0 Rank 3] ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress in monitoring enqueued collectives.",
    ),
    ("port_in_use", "OSError: [Errno 98] Address already in use"),
    (
        "port_in_use",
        "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
    ),
    (
        "port_in_use",
        "[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
    ),
    ("ray_no_resources", "ValueError: Total available GPUs 4 is less than total desired GPUs 8"),
    (
        "ray_no_resources",
        "(autoscaler +5s) Warning: The following resource request cannot be scheduled right now: {'GPU': 1.0}. This is likely due to all cluster resources being claimed by actors.",
    ),
    (
        "ray_gcs_unreachable",
        "ConnectionError: Could not find any running Ray instance. Please specify the one to connect to by setting `--address` flag or `RAY_ADDRESS` environment variable.",
    ),
    (
        "ray_gcs_unreachable",
        "(raylet) gcs_rpc_client.h:554: Failed to connect to GCS within 60 seconds. GCS may have been killed. It's either GCS is terminated by `ray stop` or is killed unexpectedly.",
    ),
    (
        "ray_object_store_full",
        "ray.exceptions.ObjectStoreFullError: Failed to put object ffff in object store because it is full. Object size is 12345 bytes.",
    ),
    (
        "sglang_watchdog_timeout",
        "[2025-10-01 10:00:00 TP3] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    ),
    (
        "slurm_requeue_preempted",
        "slurmstepd: error: *** JOB 99 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO PREEMPTION ***",
    ),
    (
        "torchrun_sighup",
        "WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down workers",
    ),
    (
        "torchrun_sigterm_external",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 12 got signal: 15",
    ),
    (
        "torchrun_child_sigkill",
        "torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL",
    ),
    (
        "torchrun_child_sigkill",
        "[2024-01-01 10:00:00,123] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'train.py'] exits with return code = -9",
    ),
    (
        "vllm_no_kv_memory",
        "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (4.29 GiB). Based on the available memory, the estimated maximum model length is 35136.",
    ),
    (
        "vllm_no_kv_memory",
        "ValueError: Free memory on device (10.5/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    ),
    (
        "checkpoint_corrupt",
        "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
    ),
    ("checkpoint_corrupt", "_pickle.UnpicklingError: invalid load key, 'v'."),
    ("checkpoint_corrupt", "EOFError: Ran out of input"),
    (
        "driver_compat_804",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 804: forward compatibility was attempted on non supported HW",
    ),
    ("gpu_init_failed", "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2393)"),
    (
        "shm_bus_error_dataloader",
        "RuntimeError: DataLoader worker (pid(s) 1234) exited unexpectedly ... Bus error (core dumped)",
    ),
    (
        "k8s_evicted_ephemeral_storage",
        "Pod ephemeral local storage usage exceeds the total limit of containers 100Gi.",
    ),
    (
        "nccl_no_socket_interface",
        "node:1:1 [0] NCCL INFO Bootstrap: no socket interface found\nncclInternalError: Internal check failed.",
    ),
    (
        "collective_mismatch",
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[1]",
    ),
    (
        "nvlink_uncorrectable_cuda",
        "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution",
    ),
    (
        "xid_119_gsp_timeout",
        "NVRM: Xid (PCI:0000:9b:00): 119, pid=1, name=x, Timeout after 45s of waiting for RPC response from GPU4 GSP! Expected function 76",
    ),
    (
        "ray_worker_register_failed",
        "[2025-01-25 08:22:57,421 C 759 759] core_worker.cc:1 Failed to register worker 01 to Raylet. IOError: [RayletClient] Unable to register worker with raylet.",
    ),
    (
        "ray_node_dead_heartbeat",
        "ray.exceptions.ActorDiedError: The actor died because its node has died. Node Id: abc",
    ),
    (
        "address_family_unsupported",
        "misc/socket.cc:402 NCCL WARN Net: Call to socket failed : Address family not supported by protocol",
    ),
    ("checkpoint_corrupt", "RuntimeError: unexpected EOF. The file might be corrupted."),
    ("checkpoint_corrupt", "RuntimeError: Invalid magic number; corrupt file?"),
    ("checkpoint_corrupt", "RuntimeError: storage has wrong size: expected 8 got 4096"),
    (
        "collective_mismatch",
        "RuntimeError: Mismatch between collective operation types across ranks.",
    ),
    (
        "collective_mismatch",
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] op.preamble.length <= op.nbytes. 16 vs 8",
    ),
    (
        "gloo_connect_failed",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/device.cc:208] Unable to find interface for: [10.0.0.9]",
    ),
    (
        "host_oom_kernel",
        "systemd[1]: user@1000.service: systemd-oomd killed 12 process(es) in this unit.",
    ),
    (
        "ipv6_address_family_warning",
        "[W socket.cpp:663] [c10d] The client socket has failed to connect to [::1]:29500 (errno: 97 - Address family not supported by protocol).",
    ),
    (
        "k8s_evicted_ephemeral_storage",
        '  Warning  Evicted  1m  kubelet  Container train exceeded its local ephemeral storage limit "50Gi".',
    ),
    (
        "k8s_oomkilled",
        "kernel: Task in /kubepods.slice/pod1 killed as a result of limit of /kubepods.slice/pod1",
    ),
    ("cgroup_oom_slurm", "4711     train    gpu    lab    8 OUT_OF_ME+    0:125"),
    (
        "cgroup_oom_slurm",
        "slurmstepd: error: Step 7.0 exceeded memory limit (2048 > 1024), being killed",
    ),
    ("nan_loss", "{'loss': nan, 'grad_norm': nan, 'learning_rate': 1e-06, 'epoch': 0.5}"),
    ("nan_loss", "step:7 - actor/entropy:0.4 - actor/pg_loss:nan - perf/mfu:0.31"),
    ("nan_grad_norm", "step:  20  loss:  2.11  grad_norm:     nan  memory: 61.20GiB(77.1%)"),
    (
        "nccl_heartbeat_stuck",
        "[rank2]:[E1 ProcessGroupNCCL.cpp:1375] [PG 0 Rank 2] First PG on this rank that detected no heartbeat of its watchdog.",
    ),
    (
        "nccl_watchdog_timeout",
        "[rank4]:[E603 10:00:01.1 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0 Rank 4]  failure detected by watchdog at work sequence id: 40 PG status: last enqueued work: 41",
    ),
    (
        "nccl_watchdog_timeout_desync",
        "\t - To our best knowledge, ranks [2] are the lagging ranks that caused this timeout. They never joined any collectives",
    ),
    (
        "nvswitch_sxid",
        "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 12028, Non-fatal, Link 3 egress error",
    ),
    (
        "ray_gcs_unreachable",
        "ERROR gcs_utils.py:142 -- Failed to send request to gcs, reconnecting.",
    ),
    (
        "ray_no_resources",
        "WARNING resource_demand_scheduler.py:839 -- The autoscaler could not find a node type to satisfy the request: [{'GPU': 8.0}]",
    ),
    (
        "ray_node_dead_heartbeat",
        "gcs_health_check_manager.cc:108: Health check failed for node ab12, remaining checks 0, status 14",
    ),
    ("ray_node_marked_dead_by_gcs", "node_manager.cc:170: This node has been marked as dead."),
    (
        "rendezvous_connect_timeout",
        "[rank1]:[W socket.cpp:221] [c10d] TCP client failed to connect/validate to host 10.0.0.1:29500 - timed out (try=2)",
    ),
    (
        "rendezvous_worldsize_mismatch",
        "AssertionError: Invalid parallel dims: dp_shard(4) * tp(2) != WORLD_SIZE(4)",
    ),
    (
        "rendezvous_worldsize_mismatch",
        "bootstrap.cc:170 NCCL WARN Bootstrap Root : mismatch in rank count from procs 8 : 16",
    ),
    ("xid_79_off_bus", "NVRM: fallen off the bus and is not responding to commands."),
    ("xid_79_off_bus", "XidCriticalError: Xid=79 on Device=GPU-1; the device will go unhealthy."),
    (
        "cuda_oom",
        "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/THCStorage.cu:58",
    ),
    ("cuda_oom", "failed call to cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    (
        "cuda_illegal_access",
        "Memory access fault by GPU node-4 (Agent handle: 0x1) on address 0x7f00. Reason: Unknown.",
    ),
    (
        "gpu_init_failed",
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    ),
    (
        "shm_full_no_space_multiprocessing",
        "    sl = self._semlock = _multiprocessing.SemLock(\nOSError: [Errno 28] No space left on device",
    ),
    ("vllm_engine_failed", "RayWorkerProc rank=[3] died unexpectedly, shutting down executor."),
    (
        "hf_rate_limit",
        "HTTP Error 429 thrown while requesting GET https://huggingface.co/api/models/x/tree/main",
    ),
    ("slurm_time_limit", "State: TIMEOUT (exit code 0)"),
    ("thread_limit", "  what():  Resource temporarily unavailable"),
]

CALM: list[str] = [
    "INFO 11-18 18:07:28 [config.py:10] If you run out of memory, try lowering gpu_memory_utilization",
    "WARNING: this may cause CUDA out of memory, consider lowering the batch size",
    "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation",
    "Using watchdog_timeout=300, mem_fraction_static=0.88",
    "server_args=ServerArgs(model_path='x', watchdog_timeout=300, mem_fraction_static=0.9, dist_timeout=None)",
    "NCCL INFO NET/Plugin: Failed to find ncclNetPlugin symbol. dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found",
    "NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0",
    "NCCL INFO NET/IB : No device found.",
    "--skip-nan-loss is enabled; steps whose loss is nan are skipped",
    "check_for_nan_in_loss_and_grad ................... True",
    "checking loss for nan every 100 steps",
    "| grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |",
    "INFO: Timeout(ms)=600000 for process group default_pg",
    "[INFO] exitcode 0",
    "srun: job 4711 queued and waiting for resources",
    "Killed: no",
    "OOMKilled: false",
    '"OOMKilled": false,',
    "INFO checkpoint may be corrupt if the job is killed while saving",
    "use_dynamic_loss_scaling: min_loss_scale 1.0",
    "(raylet) Worker exit type: INTENDED_SYSTEM_EXIT",
    "rank 0: world_size=8 tp=2",
    "Error rate 0.0%, 0 failures",
    "[rank0]:I1114 10:00:00 torch/distributed/elastic/agent/server/api.py:865] [default] worker group successfully finished. Waiting 300 seconds for other agents to finish.",
    "W0409 07:28:49.530000 1359 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable",
    "UserWarning: The given NumPy array is not writable",
    "FutureWarning: You are using `torch.load` with `weights_only=False`",
    "DeprecationWarning: distutils Version classes are deprecated.",
    "Disk usage 45% of quota",
    "Retrying request to https://huggingface.co/api/models in 0.5 s",
    "huggingface_hub: xet storage is enabled",
    "[c10d] Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 (world_size=8, worker_count=3, timeout=0:30:00)",
    "Connection timed out waiting for user input",
    "The actor pool has 8 actors, 0 dead",
    "loss: 2.345 nanoseconds: 12",
    "avg loss 1.2 in finance domain",
    "epoch 1: loss=0.52, nan_count=0",
    "max memory allocated 70.1 GiB of which 3 GiB is free",
    'INFO:     127.0.0.1:5000 - "POST /v1/completions HTTP/1.1" 200 OK',
    "2024-01-01 10:00:00,000 INFO worker.py:1642 -- Started a local Ray instance.",
    "Resource temporarily unavailable: retry later",
    "Gloo backend initialised",
    "[Gloo] Rank 0 is connected to 7 peer ranks. Expected number of connected peer ranks is : 7",
    "terminating watchdog normally",
    "tasks 0-7: running",
    "Aborting is disabled",
    "Bus width 64",
    "ECC is enabled on all GPUs; 0 uncorrectable errors",
    "Xid messages are written to syslog",
    "To avoid OOM use gradient checkpointing; CUDA out of memory errors can also come from fragmentation",
    "0 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons",
    "Checkpoint integrity: checked, not corrupted",
    "node_manager.cc:157: Last heartbeat was sent 6901 ms ago. If heartbeat keeps lagging, this node can be marked as dead mistakenly.",
    "[I ProcessGroupWrapper.cpp:562] [Rank 0] Running collective: CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE",
    "Port 8265 is already in use, trying 8266 instead",
    "WARNING: Address already in use, retrying with another port",
    "HeartbeatMonitor environments: TORCH_NCCL_ENABLE_MONITORING (Whether to kill program when no watchdog heartbeat detected): 1",
    "Sequence group 12 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space.",
    "submitit WARNING - Bypassing signal SIGTERM",
    "[I628 ProcessGroupNCCL.cpp:1501] main process destroyed cuda before watchdog loop exited, terminating watchdog. (Watchdog caught exception: CUDA error: driver shutting down",
    "(raylet) Spilled 6144 MiB, 12 objects, write throughput 1257 MiB/s.",
    "eval loss improved from nan to 2.31",
    "Waiting for creating a placement group of specs for 10 seconds. Check `ray status`",
]
