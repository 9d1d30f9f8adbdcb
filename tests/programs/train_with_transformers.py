"""python train_with_transformers.py DIR: a process that trains a small model with transformers."""

import sys

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Tokens(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        for _ in range(50):  # long enough that samples of a busy machine meet it
            tokens = torch.randint(0, 1000, (64,))
        return {"input_ids": tokens, "labels": tokens}


class Ready(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            print("trains", flush=True)


def main():
    torch.set_num_threads(1)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=1000, **sizes, **heads))
    settings = TrainingArguments(
        sys.argv[1], per_device_train_batch_size=4, report_to=[], save_strategy="no",
        max_steps=1 << 20, use_cpu=True, logging_strategy="no", disable_tqdm=True,
        optim="adamw_torch", dataloader_num_workers=0,
    )  # fmt: skip
    Trainer(model, settings, train_dataset=Tokens(), callbacks=[Ready()]).train()


main()
