"""What py-spy, gdb, pystack, faulthandler and cuda-gdb print."""

from __future__ import annotations

PYSPY = """\
Process 4711: python train.py --rank 3
Python v3.11.7 (/opt/py/bin/python3.11)

Thread 4711 (idle): "MainThread"
    wait (threading.py:320)
    all_reduce (torch/distributed/distributed_c10d.py:2700)
        Arguments:
            tensor: <Tensor at 0x7f>
        Locals:
            text: "a
b"
    step (train.py:12)
    <module> (train.py:20)
Thread 4720 (active+gil): "pump (1)"
    pump (train.py:3)
Thread 4721 (idle)
"""
GDB = """\
Attaching to process 4712
[New LWP 4713]
Thread 2 (Thread 0x7f (LWP 4713) "pt_gloo"):
#0  0x00ff in epoll_wait (epfd=3) at ../sysdeps/epoll_wait.c:30
#1  0x00fe in gloo::Loop::run() ()
    from /x/libtorch_cpu.so

Thread 1 (Thread 0x7e (LWP 4712) "python"):
#0  0x00fd in poll () from /lib/libc.so.6
#1  0x00fc in _PyEval_EvalFrameDefault (f=Frame 0x5, for file train.py, line 12, in step (n=3))
[Inferior 1 (process 4712) detached]
"""
PYSTACK = """\
Traceback for thread 4731 (python) [] (most recent call last):
    (Python) File "/x/threading.py", line 1002, in _bootstrap
Traceback for thread 4730 (python) [Has the GIL] (most recent call last):
    (Python) File "/x/train.py", line 20, in <module>
        step()
    (Python) File "/x/train.py", line 12, in step
"""
FAULT = """\
Timeout (0:00:05)!
Thread 0x00007f12 (most recent call first):
  File "/x/train.py", line 12 in step
  File "/x/train.py", line 20 in <module>
"""
CUDA = """\
  Kernel Parent Dev Grid Status  SMs Mask   GridDim  BlockDim Invocation
*      0      -   0    2 Active 0x00000001 (1,1,1) (64,1,1) ncclDevKernel_AllReduce()
Thread 1 (Thread 0x7e (LWP 4740) "python"):
#0  0x00fd in cuStreamSynchronize () from /lib/libcuda.so.1
"""
ALL = "".join((PYSPY, GDB, PYSTACK, FAULT, CUDA))
