"""Hugging Face: a Trainer over two nodes teaches a tiny language model to count.

One node then tries it. The model is made on the spot; nothing is downloaded."""

import skyward as sky

LENGTH, NUMBERS = 8, 16


def make_model():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=NUMBERS, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


@sky.compute
@sky.distributed.transformers(backend="gloo")
def fine_tune(steps):
    """Returns the number of processes, the mean loss, and the model's parameters."""
    import torch
    from transformers import Trainer, TrainingArguments

    rows = [torch.arange(start, start + LENGTH) % NUMBERS for start in range(NUMBERS)] * 16
    dataset = [{"input_ids": row, "labels": row} for row in rows]
    arguments = TrainingArguments(
        output_dir="trainer", max_steps=steps, per_device_train_batch_size=16, learning_rate=0.01,
        use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(make_model(), arguments, train_dataset=dataset)
    loss = trainer.train().training_loss
    state = {name: part.detach().numpy() for name, part in trainer.model.state_dict().items()}
    return trainer.args.world_size, loss, state


@sky.compute
def continue_counting(state, start):
    import torch

    model = make_model()
    model.load_state_dict({name: torch.tensor(part) for name, part in state.items()})
    model.eval()
    counted = model.generate(
        torch.tensor([start]), attention_mask=torch.ones(1, len(start)), do_sample=False,
        max_new_tokens=LENGTH - len(start), pad_token_id=0, eos_token_id=None,
    )  # fmt: skip
    return counted[0].tolist()


def main():
    with sky.ComputePool(nodes=2) as pool:
        (processes, loss, state), *_ = fine_tune(steps=60) @ pool
        counted = continue_counting(state, [5, 6, 7]) >> pool
    print(f"{processes} processes, mean loss {loss:.3f}: 5, 6, 7 goes on as {counted[3:]}")
    assert processes == 2 and counted == [5, 6, 7, 8, 9, 10, 11, 12]


if __name__ == "__main__":
    main()
