"""FSDP: a Hugging Face model whose weights are split over two nodes learns to count."""

import skyward as sky

WORDS, LENGTH = 16, 12


@sky.compute(timeout=1800)
@sky.distributed.transformers
def fine_tune(steps: int) -> tuple[int, int, float, float]:
    """Weights of the model, weights that this node keeps, and the loss before and after."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from transformers import GPT2Config, GPT2LMHeadModel

    info = sky.instance_info()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)  # every node starts with the same weights and keeps its part
    config = GPT2Config(
        vocab_size=WORDS, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2,
        bos_token_id=0, eos_token_id=0, loss_type="ForCausalLM",
    )  # fmt: skip
    model = GPT2LMHeadModel(config).to(device)
    mesh = init_device_mesh(device, (info.total_workers,))
    for block in model.transformer.h:  # gathers a block's weights only while it computes
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    weights = list(model.parameters())
    kept = sum(weight.to_local().numel() for weight in weights)

    starts = sky.shard(torch.arange(64))  # each node has its part of the sentences
    texts = ((starts[:, None] + torch.arange(LENGTH)) % WORDS).to(device)
    optimizer = torch.optim.AdamW(weights, lr=0.01)
    losses = []
    for _ in range(steps):
        loss = model(texts, labels=texts).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return sum(weight.numel() for weight in weights), kept, losses[0], losses[-1]


def main() -> None:
    # On a cloud: provider=sky.AWS(), accelerator="A100", pip=["torch", "transformers"].
    with sky.ComputePool(nodes=2) as pool:
        answers = fine_tune(60) @ pool
    for node, (weights, kept, before, after) in enumerate(answers):
        print(f"node {node} keeps {kept} of {weights} weights: loss {before:.2f} to {after:.2f}")
    weights = answers[0][0]
    assert sum(kept for _, kept, _, _ in answers) == weights
    assert all(kept < 0.6 * weights and after < before / 4 for _, kept, before, after in answers)


if __name__ == "__main__":
    main()
