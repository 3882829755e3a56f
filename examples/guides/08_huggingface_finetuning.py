"""Hugging Face: a Trainer teaches a tiny BERT, made on the spot, to find a word in a text."""

import skyward as sky

WORDS, LENGTH, NEEDLE = 20, 12, 7


@sky.compute
@sky.distributed.transformers(backend="gloo")
def fine_tune():
    """Returns the number of processes, and the share of new texts that are judged rightly."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    def texts(count, seed):
        random = torch.Generator().manual_seed(seed)
        ids = torch.randint(0, WORDS, (count, LENGTH), generator=random)
        ids[ids == NEEDLE] = 0
        ids[::2, 3] = NEEDLE
        return [{"input_ids": row, "labels": int((row == NEEDLE).any())} for row in ids]

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=LENGTH,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="trainer", max_steps=60, per_device_train_batch_size=16, learning_rate=0.005,
        use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    trainer = Trainer(model, arguments, train_dataset=texts(400, 1))
    trainer.train()
    judged = trainer.predict(texts(100, 2))
    right = (judged.predictions.argmax(axis=1) == judged.label_ids).mean()
    return trainer.args.world_size, float(right)


def main():
    with sky.ComputePool(nodes=2) as pool:
        (processes, right), *_ = fine_tune() @ pool
    print(f"{processes} processes, {right:.0%} of new texts are judged rightly")
    assert processes == 2 and right > 0.9


if __name__ == "__main__":
    main()
