"""distributed.transformers: a real Trainer on a tiny model that is made on the spot."""

import os

import numpy
import pytest

import skyward as sky

STEPS, BATCH = 3, 4


@pytest.fixture(scope="module")
def pool():
    env = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with sky.ComputePool(nodes=2, env=env, display="quiet") as opened:
        yield opened


def sentences(count):
    """Token ids 0…31, as the trainer takes them."""
    import torch

    random = numpy.random.default_rng(1)
    return [
        {"input_ids": torch.tensor(ids), "labels": torch.tensor(ids)}
        for ids in random.integers(0, 32, size=(count, 8))
    ]


def make_model():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def fine_tune(folder, batch):
    from transformers import Trainer, TrainingArguments

    class InOrder(Trainer):
        def _get_train_sampler(self, *args, **kwargs):
            from torch.utils.data import SequentialSampler

            return SequentialSampler(self.train_dataset)

    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=batch, max_steps=STEPS, learning_rate=0.01,
        optim="sgd", use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no",
        disable_tqdm=True, seed=0,
    )  # fmt: skip
    trainer = InOrder(make_model(), arguments, train_dataset=sentences(STEPS * BATCH * 2))
    result = trainer.train()
    return (
        trainer.args.world_size,
        result.training_loss,
        [part.detach().numpy() for part in trainer.model.parameters()],
    )


@sky.compute
@sky.distributed.transformers(backend="gloo")
def together(folder):
    return fine_tune(os.path.join(folder, os.environ["RANK"]), BATCH)


@sky.compute
def alone(folder):
    return fine_tune(os.path.join(folder, "alone"), BATCH * 2)


def test_trainer_equals_one_process(pool, tmp_path):
    one, loss, parameters = alone(str(tmp_path)) >> pool
    assert one == 1
    for round_ in range(2):
        answers = together(str(tmp_path)) @ pool
        assert [workers for workers, _, _ in answers] == [2, 2], round_
        for _, _, theirs in answers:
            for part, twin in zip(parameters, theirs, strict=True):
                assert numpy.allclose(part, twin, rtol=0, atol=1e-5)
        assert numpy.isclose(numpy.mean([theirs for _, theirs, _ in answers]), loss, atol=1e-5)
    again, _, _ = alone(str(tmp_path)) >> pool
    assert again == 1, "a call without the decorator is alone again"
