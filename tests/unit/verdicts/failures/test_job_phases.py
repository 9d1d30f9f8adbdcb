"""Phases: what frameworks write, version by version, and where each of their processes is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.logs.patterns import PatternSet
from rankdbg.verdicts.failures.job_phases import Course, courses
from rankdbg.verdicts.rules.log_rules import load_rules

RULES = load_rules()
PATTERNS = RULES.phase_patterns()
KNOWN = PatternSet(PATTERNS)

WORDINGS = [
    ("vllm", "(Worker_TP0 pid=7) INFO 06-01 [monitor.py:53] torch.compile took 12.00 s in total"),
    (
        "vllm",
        "INFO 06-01 [backends.py:376] Cache the graph of compile range (1, 2048) for later use",
    ),
    (
        "vllm",
        "ERROR 06-01 [core.py:390] EngineCore hit an exception: Traceback (most recent call last):",
    ),
    ("vllm", "INFO 08-01 [weight_utils.py:9] Prefetching checkpoint files: 40% (4/10)"),
    ("sglang", "[2025-10-01 09:00:00 TP0] Capture cuda graph bs [1, 2, 4, 8]"),
    ("sglang", "[2026-08-01 09:00:00 TP0] Capture single-CG draft extend begin. avail mem=9.1 GB"),
    (
        "sglang",
        "[2026-08-01 09:00:00 TP0] Prefill batch [17], #new-seq: 1, #new-token: 80, #cached-token: 0, #queue-req: 0",
    ),
    ("sglang", "[2026-08-01 09:00:00] Initialization failed. warmup error: timed out"),
    ("megatron", "> initializing tensor model parallel with size 4"),
    ("megatron", " > finished creating indexed dataset in 0.060000 seconds"),
    ("megatron", " > dataset split:"),
    (
        "torchtitan",
        "[rank0]:[titan] 2025-06-01 10:00:00,000 - root - INFO - step:  1  loss:  8.1000  memory:  4.80GiB(6.00%)  tps: 20",
    ),
    (
        "torchtitan",
        "[titan] 2025-06-01 10:00:00,000 - root - INFO - Saving a model only checkpoint in torch.bfloat16 at last step, step 20.",
    ),
    ("torchtitan", "[rank0]:2024-08-01 10:00:00,000 - root - INFO - Starting job: debug training"),
    ("nemo_rl", "▶ Computing teacher logprobs..."),
    ("nemo_rl", "[NRL_PHASE] 2026-08-01T10:00:00 worker 3 container started on gpu-9"),
    ("verl", "(TaskRunner pid=7) Saved dataloader state to: /c/global_step_5/data.pt"),
    ("verl", "SGLang http server: rollout_mode=hybrid, replica_rank=0, node_rank=0"),
    (
        "deepspeed",
        "[2023-05-01 00:00:00,000] [INFO] [stage3.py:167:__init__] Prefetch bucket size 40000000",
    ),
    ("deepspeed", "Parameter Offload: Total persistent parameters: 4096 in 8 params"),
    (
        "deepspeed",
        "[2023-05-01 00:00:00,000] [INFO] [engine.py:516:_configure_lr_scheduler] DeepSpeed using client LR scheduler",
    ),
    ("deepspeed", "steps: 20 loss: 3.1000 iter time (s): 1.200 samples/sec: 26.600"),
    ("torchspec", "Successfully initialized 3 Sgl engines"),
    ("torchspec", "Loaded 700 cached samples"),
    (
        "vllm",
        "INFO 05-01 [llm_engine.py:240] Initializing a V0 LLM engine (v0.8.4) with config: model='x'",
    ),
    ("vllm", "INFO 03-01 executor_base.py:111] # cuda blocks: 20000, # CPU blocks: 4096"),
    (
        "vllm",
        "Loading safetensors using Runai Model Streamer:  40% Completed | 12/30 [00:03<00:01]",
    ),
    (
        "vllm",
        "INFO 05-01 [loader.py:1187] Loading weights with BitsAndBytes quantization. May take a while ...",
    ),
    (
        "vllm",
        "INFO 05-01 [parallel_state.py:1004] rank 3 in world size 8 is assigned as DP rank 0, PP rank 0, TP rank 3",
    ),
    ("vllm", "INFO 06-01 api_server.py:161] args: Namespace(host=None, port=8000, model='x')"),
    ("vllm", "ERROR 06-01 [core.py:700] EngineCore failed to start."),
    ("sglang", "[gpu_id=3] Init nccl begin."),
    ("sglang", "Rank 3: load weight begin."),
    ("sglang", "Multi-thread loading pt checkpoint shards:  25% Completed | 2/8 [00:10<00:30]"),
    ("sglang", "Capturing batches (avail_mem=9.80 GB):  10%|# | 2/20 [00:03<00:12,  1.5it/s]"),
    (
        "sglang",
        "[gpu_id=0] max_total_num_tokens=400000, max_prefill_tokens=16384, max_running_requests=5000, context_len=8192",
    ),
    (
        "sglang",
        "[10:00:00 TP0] Prefill batch(mixed #running-req: 7). #new-seq: 1, #new-token: 80, #cached-token: 0, #queue-req: 0",
    ),
    (
        "sglang",
        "[2026-01-01 10:00:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    ),
    (
        "sglang",
        "[2025-01-01 10:00:00] DataParallelController hit an exception: Traceback (most recent call last):",
    ),
    ("megatron", "------------------------ arguments ------------------------"),
    ("megatron", "[after megatron is initialized] datetime: 2022-01-01 00:00:00"),
    (
        "megatron",
        "INFO:megatron.core.optimizer:Setting up optimizer with config OptimizerConfig(lr=0.1)",
    ),
    ("megatron", " loading release checkpoint from /ckpt/x"),
    ("megatron", " > WARNING: could not find index map files, building the indices on rank 0 ..."),
    (
        "megatron",
        "INFO:megatron.core.datasets.gpt_dataset:Build and save the GPTDataset valid indices",
    ),
    (
        "megatron",
        " iteration       20/     500 | elapsed time per iteration (ms): 812.5 | learning rate: 1.5E-06 | lm loss: 9.1E+00 | loss scale: 65536.0 |",
    ),
    ("megatron", "  successfully saved local checkpoint from iteration     500"),
    ("megatron", "[after training is done] datetime: 2022-01-01 00:00:00"),
    (
        "torchtitan",
        "[rank0]:2024-08-01 10:00:00,000 - root - INFO - TikTokenizer built: #words 1000, BOS ID 1, EOS ID 2",
    ),
    (
        "torchtitan",
        "[rank0]:2024-08-01 10:00:00,000 - root - INFO - Building llama3 debugmodel with ModelArgs(dim=256, n_layers=8)",
    ),
    (
        "torchtitan",
        "[rank0]:[titan] 2025-06-01 10:00:00,000 - root - INFO - Building qwen3 1.7Bwith {",
    ),
    (
        "torchtitan",
        "[titan] 2025-06-01 10:00:00,000 - root - INFO - loading from HF safetensors from --checkpoint.initial_load_path: /m",
    ),
    ("nemo_rl", "  ✓ Validation dataloader loaded with 64 samples"),
    ("nemo_rl", "  ✓ Ray inference cluster initialized with 2 nodes with 8 GPUs per node"),
    ("nemo_rl", "[Rank 1] Loading model acme/small on CPU..."),
    (
        "verl",
        "(WorkerDict pid=7) [rank-1]: Saving model to /c/global_step_5/actor/model_world_size_8_rank_1.pt",
    ),
    (
        "verl",
        "(WorkerDict pid=7) [rank-1]: Loading from /c/global_step_5/actor/m.pt and /c/o.pt and /c/e.pt",
    ),
    ("verl", "(TaskRunner pid=7) Resuming from /c/global_step_5"),
    (
        "deepspeed",
        "[2023-05-01 00:00:00,000] [INFO] [runner.py:541:main] cmd = /usr/bin/python3 -u -m deepspeed.launcher.launch --world_info=x train.py",
    ),
    (
        "deepspeed",
        "[2023-05-01 00:00:00,000] [INFO] [distributed.py:40:init_distributed] Initializing torch distributed with backend: nccl",
    ),
    (
        "deepspeed",
        "[2023-05-01 00:00:00,000] [INFO] [comm.py:690:mpi_discovery] Discovered MPI settings of world_rank=0, local_rank=0, world_size=4, master_addr=10.0.0.1, master_port=29500",
    ),
    ("deepspeed", "Building extension module cpu_adam..."),
    (
        "deepspeed",
        "[2023-05-01 00:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] Using DeepSpeed Optimizer param name lamb as basic optimizer",
    ),
    (
        "deepspeed",
        "[2023-05-01 00:00:00,000] [INFO] [utils.py:781:see_memory_usage] Stage 3 initialize beginning",
    ),
    ("deepspeed", "[2023-05-01 00:00:00,000] [INFO] [timer.py:154:stop] 0/75, SamplesPerSec=6.1"),
    (
        "deepspeed",
        "[2023-05-01 00:00:00,000] [INFO] [timer.py:260:stop] epoch=0/micro_step=8/global_step=2, RunningAvgSamplesPerSec=12.1, CurrSamplesPerSec=12.3",
    ),
    (
        "deepspeed",
        "[2023-05-01 00:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | forward: 100.1 | backward: 200.2 | step: 30.3",
    ),
    ("torchspec", "Tokenizing dataset:  12%|#         | 60/500 [00:10<01:13, 6.0it/s]"),
    ("torchspec", "Creating placement groups: 2 GPUs for inference and 6 GPUs for training..."),
    ("torchspec", "Initializing 4 Vllm engines (2 GPU(s) each, nnodes=1, replicas=4)"),
    (
        "vllm",
        "INFO 11-02 [backends.py:519] Using cache directory: /c/rank_0_0 for vLLM's torch.compile",
    ),
    ("vllm", "INFO 11-02 [gpu_worker.py:116] It took 0.812345 seconds to fall asleep."),
    ("vllm", "INFO 11-02 [runner.py:9] Capturing model for EAGLE speculator..."),
    ("megatron", "> initializing torch distributed ..."),
    (
        "deepspeed",
        "[2024-01-01 00:00:00,000] [INFO] [engine.py:22:load] [Torch] Loading checkpoint from /c/mp_rank_00_model_states.pt...",
    ),
    (
        "deepspeed",
        "[2024-01-01 00:00:00,000] [INFO] [engine.py:24:load] [Torch] Loaded checkpoint from /c/mp_rank_00_model_states.pt.",
    ),
    (
        "deepspeed",
        "[2024-01-01 00:00:00,000] [INFO] [engine.py:21:save] [Torch] Saved /c/global_step10/mp_rank_00_model_states.pt.",
    ),
    (
        "ray",
        "INFO 11-02 [ray_utils.py:230] Waiting for creating a placement group of specs for 10 seconds.",
    ),
    ("torchspec", "VllmEngine rank 1: BEFORE init - base_gpu_id=0, num_gpus=4"),
    ("torchspec", "HFEngine rank 0: initialized from /models/x"),
    ("torchspec", "Creating colocated placement group with 8 GPUs..."),
    ("torchspec", "Using REPLICATE strategy (DDP-like, gradient all-reduce only)"),
    ("torchspec", "Saving final checkpoint at step 100..."),
    ("torchspec", "Still waiting for pool capacity (waited 30s): pool_size=64/64"),
    ("torchspec", "Step 20: updating 2 engine(s)"),
    ("sglang", "[2025-01-01 00:00:00 TP0] Init torch distributed ends. mem usage=0.87 GB"),
    (
        "sglang",
        "[2025-01-01 00:00:00 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=60.1 GB",
    ),
    (
        "sglang",
        "[2025-01-01 00:00:00 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 442368, K size: 27.00 GB, V size: 27.00 GB",
    ),
    (
        "sglang",
        "[2025-01-01 00:00:00 TP0] Capture cuda graph begin. This can take up to several minutes.",
    ),
    (
        "sglang",
        "[2025-01-01 00:00:00 TP0] Capture draft cuda graph begin. This can take up to several minutes. avail mem=9.3 GB",
    ),
    (
        "sglang",
        "[2025-01-01 00:00:00 TP0] Capture draft extend cuda graph end. Time elapsed: 12.1 s.",
    ),
    ("sglang", "[2025-01-01 00:00:00] Capture piecewise CUDA graph begin. avail mem=12 GB"),
    (
        "sglang",
        "[2025-01-01 00:00:00 TP1] Entering DeepGEMM JIT Pre-Compile session. It may takes a long time(typically 10-20 mins) if you have not run `sglang.compile_deep_gemm`.",
    ),
    (
        "vllm",
        "INFO 10-01 llm_engine.py:237] Initializing an LLM engine (v0.6.3) with config: model='x'",
    ),
    ("vllm", "INFO 10-01 model_runner.py:1072] Loading model weights took 14.9888 GB"),
    ("vllm", "INFO 10-01 distributed_gpu_executor.py:57] # GPU blocks: 27000, # CPU blocks: 2048"),
    (
        "vllm",
        "INFO 10-01 gpu_executor.py:126] Maximum concurrency for 8192 tokens per request: 52.81x",
    ),
    ("vllm", "INFO 03-01 [kv_cache_utils.py:634] GPU KV cache size: 412,345 tokens"),
    ("vllm", "INFO 03-01 [backends.py:430] Compiling a graph for general shape takes 25.30 s"),
    (
        "vllm",
        "INFO 03-01 [backends.py:132] Directly load the compiled graph(s) for shape None from the cache, took 4.5 s",
    ),
    ("vllm", "INFO 03-01 [monitor.py:33] torch.compile takes 30.2 s in total"),
    (
        "vllm",
        "INFO 10-01 model_runner.py:1400] Capturing the model for CUDA graphs. This may lead to unexpected consequences if the model is not static.",
    ),
    (
        "vllm",
        "INFO 03-01 [core_client.py:439] Waiting for core engine process(es) to start. Status: {}",
    ),
    (
        "megatron",
        "using world size: 8, data-parallel-size: 2, tensor-model-parallel size: 4, pipeline-model-parallel size: 1",
    ),
    ("megatron", "building GPT model ..."),
    ("megatron", "> compiling and loading fused kernels ..."),
    ("megatron", "saving checkpoint at iteration     500 to /ckpt"),
    ("megatron", "  successfully saved checkpoint at iteration     500 to /ckpt"),
    ("megatron", "Evaluating iter 3/10"),
    ("megatron", "[exiting program at iteration 1000] datetime: 2024-01-01 00:00:00"),
    (
        "torchtitan",
        "[rank0]:[titan] 2024-09-01 10:00:00,000 - root - INFO - Starting job: Llama 3 8B training",
    ),
    (
        "torchtitan",
        "[rank0]:2024-09-01 10:00:00,000 - root - INFO - Building 1-D device mesh with ['dp'], [8]",
    ),
    (
        "torchtitan",
        "[rank0]:[titan] 2024-09-01 10:00:00,000 - root - INFO - Building tiktoken tokenizer locally from ./tokenizer.model",
    ),
    (
        "torchtitan",
        "[titan] 2024-09-01 10:00:00,000 - root - INFO - GPU capacity: NVIDIA H100 (0) with 95.04GiB memory",
    ),
    (
        "torchtitan",
        "[titan] 2024-09-01 10:00:00,000 - root - INFO - Applied selective activation checkpointing to the model",
    ),
    (
        "torchtitan",
        "[titan] 2024-09-01 10:00:00,000 - root - INFO - Applied Tensor Parallelism to the model",
    ),
    (
        "torchtitan",
        "[titan] 2024-09-01 10:00:00,000 - root - INFO - GPU memory usage for model: 3.77GiB(3.97%)",
    ),
    (
        "torchtitan",
        "[titan] 2024-09-01 10:00:00,000 - root - INFO - step:  1  loss: 12.2527  memory: 27.2GiB(28.6%)  wps: 1,100  mfu: 3.0%",
    ),
    (
        "torchtitan",
        "[titan] 2024-09-01 10:00:00,000 - root - INFO - Saving the checkpoint (or staging if async is enabled).",
    ),
    (
        "torchtitan",
        "[titan] 2024-09-01 10:00:00,000 - root - INFO - Saving a checkpoint at step 500",
    ),
    (
        "torchtitan",
        "[titan] 2024-09-01 10:00:00,000 - root - INFO - Finished saving the checkpoint (or staging if async is enabled) in 3.21 seconds.",
    ),
    (
        "torchtitan",
        "[titan] 2024-09-01 10:00:00,000 - root - INFO - Loading the checkpoint at step 500.",
    ),
    (
        "torchtitan",
        "[titan] 2024-09-01 10:00:00,000 - root - INFO - validate step: 10  loss:  2.31",
    ),
    (
        "deepspeed",
        "[2024-01-01 00:00:00,000] [INFO] [real_accelerator.py:191:get_accelerator] Setting ds_accelerator to cuda (auto detect)",
    ),
    ("deepspeed", "Using /root/.cache/torch_extensions/py310_cu121 as PyTorch extensions root..."),
    (
        "deepspeed",
        "[2024-01-01 00:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] Saving model checkpoint: /c/global_step10/mp_rank_00_model_states.pt",
    ),
    (
        "deepspeed",
        "[2024-01-01 00:00:00,000] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step10 is ready now!",
    ),
    ("verl", "(TaskRunner pid=1) Size of train dataloader: 115, Size of val dataloader: 1"),
    ("verl", "(WorkerDict pid=1) Qwen2ForCausalLM contains 1.54B parameters"),
    ("verl", "(TaskRunner pid=1) Training Progress:   3%|▎         | 12/435 [10:00<1:00:00]"),
    ("verl", "(TaskRunner pid=1) Setting global step to 100"),
    ("verl", "(TaskRunner pid=1) test_gen_batch meta info: {'eos_token_id': 1}"),
    ("verl", "(TaskRunner pid=1) Final validation metrics: {'x': 1}"),
    ("nemo_rl", "▶ Preparing for training..."),
    ("nemo_rl", "🔄 Refitting policy generation with actual model weights..."),
    ("nemo_rl", "  ✓ Ray cluster initialized with 2 nodes"),
    ("nemo_rl", "▶ Starting validation at step 10..."),
    ("nemo_rl", "▶ Setting up student policy..."),
    ("nemo_rl", "⏳ Waiting for replay buffer to be ready for step 3..."),
    (
        "vllm",
        "INFO 07-02 [config.py:801] This model supports multiple tasks: {'embed', 'generate'}. Defaulting to 'generate'.",
    ),
    ("vllm", "INFO 07-02 [core.py:440] Waiting for init message from front-end."),
    ("vllm", "INFO 07-02 [utils.py:900] Started DP Coordinator process (PID: 912)"),
    (
        "vllm",
        "INFO 07-02 custom_all_reduce_utils.py:204] generating GPU P2P access cache in /root/.cache/vllm/gpu_p2p_access_cache_for_0,1.json",
    ),
    ("vllm", "INFO 07-02 custom_all_reduce.py:233] Registering 2310 cuda graph addresses"),
    (
        "vllm",
        "INFO 07-02 [gpu_worker.py:116] Sleep mode freed 61.20 GiB memory, 2.10 GiB memory is still in use.",
    ),
    ("vllm", "INFO 07-02 [launcher.py:80] Shutting down FastAPI HTTP server."),
    ("sglang", "[2026-02-01 10:00:00] Launch DP3 starting at GPU #12."),
    (
        "sglang",
        "[2026-02-01 10:00:00 TP0] Update engine weights online from disk begin. avail mem=9.10 GB",
    ),
    ("megatron", "> initializing model parallel with size 4"),
    ("megatron", " > number of parameters on model parallel rank 3: 201326592"),
    ("megatron", "> building SentencePieceTokenizer tokenizer ..."),
    ("megatron", "setting number of micro-batches to constant 16"),
    (
        "megatron",
        " iteration      300/   90000 | elapsed time per iteration (ms): 512.0 | learning rate 2.5E-05 | lm loss 6.1E+00 | nsp loss 4.1E-01 |",
    ),
    (
        "megatron",
        "[2025-02-01 10:00:00.100][INFO][training_log.py:660] -  iteration=      70/    2000 | consumed_samples=        4480 | learning_rate=1.2",
    ),
    ("megatron", "Start cuda_graph_capture on rank3"),
    (
        "torchtitan",
        "[rank0]:[titan] 2026-01-01 10:00:00,000 - root - INFO - Swapped to Float8Linear layers with enable_fsdp_float8_all_gather=True",
    ),
    (
        "deepspeed",
        "RANK=3 STAGE=1 LAYERS=6 [6, 12) STAGE_PARAMS=1024 (0.001M) TOTAL_PARAMS=2048 (0.002M) UNIQUE_PARAMS=2048 (0.002M)",
    ),
    ("hf", "[INFO|trainer.py:2314] 2026-03-06 12:04:09,913 >> ***** Running training *****"),
    ("hf", "[INFO|trainer.py:2322] 2026-03-06 12:04:09,914 >>   Total optimization steps = 1,200"),
    (
        "hf",
        "[INFO|trainer.py:3801] 2026-03-06 13:00:00,001 >> Saving model checkpoint to out/checkpoint-400",
    ),
    ("lightning", "[rank: 5] Seed set to 1234"),
    ("lightning", "TPU available: False, using: 0 TPU cores"),
    ("lightning", "Initializing distributed: GLOBAL_RANK: 2, MEMBER: 3/4"),
    (
        "lightning",
        "submitit INFO (2026-01-01 10:00:00,000) - Starting with JobEnvironment(job_id=7, hostname=n1, local_rank=0(8), node=0(1), global_rank=0(8))",
    ),
    (
        "lightning",
        "Epoch 3:  40%|####      | 80/200 [01:00<01:30,  1.33it/s, v_num=4, train_loss=0.9]",
    ),
    ("lightning", "Epoch 0, global step 600: 'val_loss' was not in top 3"),
    ("lightning", "`Trainer.fit` stopped: `max_steps=600` reached."),
    (
        "nemo",
        "[NeMo I 2026-01-03 05:50:16 megatron_init:314] Rank 3 has tensor model parallel rank: 1",
    ),
    (
        "nemo",
        "Training epoch 1, iteration 70/99 | lr: 0.0003 | global_batch_size: 64 | global_step: 170 | reduced_train_loss: 2.1",
    ),
    (
        "torchtune",
        "INFO:torchtune.utils._logging:FSDP is enabled. Instantiating model and loading checkpoint on Rank 0 ...",
    ),
    ("torchtune", "INFO:torchtune.utils._logging:Optimizer and loss are initialized."),
    ("torchtune", "2|96|Loss: 0.81:  24%|##4       | 96/404 [06:11<20:20,  3.93s/it]"),
    (
        "axolotl",
        "[2026-01-19 10:12:03,511] [INFO] [axolotl.train.execute_training:226] [PID:4182] [RANK:0] Starting trainer...",
    ),
    (
        "axolotl",
        "[2026-01-19 14:40:11,230] [INFO] [axolotl.train.save_trained_model:267] [PID:4182] Training completed! Saving trained model to ./out.",
    ),
    (
        "llamafactory",
        "[INFO|2026-03-04 21:55:58] llamafactory.launcher:143 >> Initializing 4 distributed tasks at: 127.0.0.1:29511",
    ),
    (
        "llamafactory",
        "[INFO|2026-03-04 21:56:12] llamafactory.data.loader:143 >> Loading dataset own_texts.json...",
    ),
    (
        "llm_foundry",
        "2026-06-11 17:20:31,874: rank3[2210][MainThread]: INFO: llmfoundry.command_utils.train: Building eval loader...",
    ),
    ("llm_foundry", "[epoch=1][batch=400/4800]:"),
    (
        "openrlhf",
        "(PPOTrainer pid=77) Train step of epoch 1:  12%|#2        | 12/100 [01:02<06:48,  4.07s/it, gpt_loss=1.1]",
    ),
    ("openrlhf", "(LLMRayActor pid=78) creating LLM with bundle_indices=[2, 3]"),
    (
        "maxtext",
        "completed step: 30, seconds: 2.100, TFLOP/s/device: 390.1, Tokens/s/device: 7001.2, total_weights: 1024, loss: 8.1",
    ),
    ("maxtext", "Attempting to initialize the jax distributed system for GPU backend..."),
    (
        "slime",
        "[2026-04-02 05:10:12] placement_group.py:125 - Creating placement group with 32 GPUs...",
    ),
    (
        "prime_rl",
        "12:31:07 SUCCESS Step 31 | 39.10s | Loss 0.0018 | Entropy 0.29 | Throughput 19001 tokens/s",
    ),
    (
        "deepspeed_chat",
        "epoch: 1|step: 40|ppo_ep: 1|act_loss: 0.19|cri_loss: 0.11|unsuper_loss: 0.0",
    ),
    (
        "tgi",
        "2026-10-16T10:48:31.020113Z  INFO shard-manager: text_generation_launcher: Starting shard rank=1",
    ),
    ("tgi", "2026-10-16T10:48:31.020113Z  INFO text_generation_launcher: Shard 1 ready in 31.2s"),
    (
        "tgi",
        '{"timestamp":"2026-10-16T10:48:31Z","level":"INFO","message":"Warming up model","target":"text_generation_router_v3"}',
    ),
    ("tensorrt_llm", "[TensorRT-LLM][INFO] MPI size: 8, MPI local size: 8, rank: 5"),
    (
        "tensorrt_llm",
        "I0410 16:58:08.485508 1 model_lifecycle.cc:849] \"successfully loaded 'ensemble'\"",
    ),
]

# What other programs write, and what only sounds like the beginning of a phase.
OF_NOBODY = [
    "Connected to the database at 10.0.0.4",
    "server: Connected",
    "2026-01-01 10:00:00 INFO app: Building tokenizer...",
    "2026-01-01 10:00:00 INFO app: Starting training...",
    "2026-01-01 10:00:00 INFO app: Shard 3 ready in 12 s",
    "2026-01-01 10:00:00 INFO app: Warming up model",
    "Step 7 | done",
    "2026-01-01 INFO data: Loading dataset part-3",
    "the seed set to be used is 7",
    "Epoch 3: loss 2.1",
    "> total number of errors: 3",
    "GPU available: none of 8",
    "INFO app: Saving model checkpoint later",
]


@pytest.mark.parametrize(("stack", "line"), WORDINGS, ids=lambda value: value[:40])
def test_wordings(stack: str, line: str) -> None:
    """A line of one of this stack's versions is known as its own, and as nobody else's."""
    # The rule for bars of any program gives way to those of frameworks.
    assert stacks_of(line) - {"bars"} == {stack}


@pytest.mark.parametrize("line", OF_NOBODY)
def test_wordings_of_nobody(line: str) -> None:
    assert stacks_of(line) == set()


def stacks_of(line: str) -> set[str]:
    """Those that know the line."""
    stacks = set()
    for number, pattern in enumerate(PATTERNS):
        literals = [literal.encode() for literal, _ in pattern.match if literal in line]
        if literals and KNOWN.matches(pattern, literals, line):
            stacks.add(RULES.phases[number].stack)
    return stacks


def read(folder: Path) -> list[Course]:
    return courses(given_logs([str(folder)], RULES.patterns()).scan(), RULES)


def test_bars_of_two_engines(tmp_path: Path) -> None:
    """A bar that vLLM and SGLang both write is the one's whose other lines are in the file."""
    bar = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:09<00:09]"
    (tmp_path / "vllm.log").write_text(
        f"INFO 03-01 10:00:15 [runner.py:1] Starting to load model x...\n{bar}\n"
    )
    (tmp_path / "sglang.log").write_text(
        f"[2026-03-01 10:00:15 TP0] Load weight begin. avail mem=78.5 GB\n{bar}\n"
    )
    found = {(Path(course.path).name, course.now.rule.stack) for course in read(tmp_path)}
    assert found == {("vllm.log", "vllm"), ("sglang.log", "sglang")}


def test_folder_of_torchspec(tmp_path: Path) -> None:
    """TORCHSPEC_LOG_DIR: rank 0 of the training and rank 0 of the inference are two processes."""
    for role, line in (
        ("training", "trainer.py:110 INFO [Rank 0] Device mesh (1D): world_size=2, dp_size=2"),
        ("inference", "sgl_engine.py:197 INFO SglEngine rank 0: BEFORE init - base_gpu_id=0"),
    ):
        folder = tmp_path / role / "10.0.0.1"
        folder.mkdir(parents=True)
        log = folder / f"{role}_g0_rank0_20260301_080012.log"
        log.write_text(f"[2026-03-01 08:00:12,123] {line}\n")
    found = {(each.who.actor, each.who.rank, each.now.rule.phase) for each in read(tmp_path)}
    assert found == {("training", 0, "trainer pg ready"), ("inference", 0, "engine init")}
    assert {each.who.address for each in read(tmp_path)} == {"10.0.0.1"}


def test_structured_logs_of_torchtitan(tmp_path: Path) -> None:
    """Of each rank the step and the span that it is in, at the time that its record says."""
    folder = tmp_path / "outputs" / "structured_logs"
    folder.mkdir(parents=True)
    begin = 1_772_352_000_123_456
    for rank, last in ((0, "fwd_bwd_end"), (1, "fwd_bwd_start")):
        events = [("torch_distributed_init_start", None), ("fwd_bwd_start", 5), (last, 5)]
        records = [
            {
                "rank": rank,
                "source": "training",
                "pid": 100 + rank,
                **({} if step is None else {"step": step, "relative_step": step}),
                "time": begin // 1_000_000 + second,
                "time_us": begin + 1_000_000 * second,
                "log_type_name": name,
            }
            for second, (name, step) in enumerate(events)
        ]
        log = folder / f"training.global_rank_{rank}.20260301-080000-AB12CD.jsonl"
        log.write_text("".join(json.dumps(record) + "\n" for record in records))
    found = read(tmp_path)
    assert [(each.who.rank, each.now.step, each.now.detail) for each in found] == [
        (0, 5, "fwd_bwd_end"),
        (1, 5, "fwd_bwd_start"),
    ]
    assert [stay.rule.phase for stay in found[0].stays] == ["start", "step"]
    assert found[0].stays[0].begin == pytest.approx(begin / 1e6, abs=0.001)


def test_a_detail_that_is_a_secret(tmp_path: Path) -> None:
    """A user's rule may take any words as the detail of a phase: a secret among them is masked."""
    rules, log = tmp_path / "mine.toml", tmp_path / "rank0.log"
    rules.write_text(
        '[[phase]]\nstack = "mine"\nphase = "download"\norder = 1\n'
        "match = [[\"fetching \", 'fetching (?P<detail>.+)']]\n"
    )
    log.write_text("2026-03-01 10:00:00 fetching llama with token=sesame-open-4711\n")
    mine = load_rules([str(rules)])
    (found,) = courses(given_logs([str(log)], mine.phase_patterns()).scan(), mine)
    assert found.now.detail == "llama with token=***"
