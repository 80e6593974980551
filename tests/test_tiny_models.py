"""The example of stacked models in the documentation trains each as it would train alone."""

import re

import pytest
import torch

from configs import ROOT


@pytest.fixture
def example():
    """The names of the example, once it has run with fewer models and steps."""
    text = (ROOT / "docs/tiny-models.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    code = re.sub(
        r"^MODELS, STEPS, BATCH = .*", "MODELS, STEPS, BATCH = 3, 20, 16", code, flags=re.MULTILINE
    )
    names = {}
    exec(compile(code, "docs/tiny-models.md", "exec"), names)  # noqa: S102 (ours)
    assert len(names["losses"]) == 3
    return names


def test_stacked_models_have_the_losses_of_models_alone(example):
    for seed, stacked in enumerate(example["losses"].tolist()):
        model = example["make"](seed)
        optimizer = torch.optim.Adam(model.parameters())
        generator = torch.Generator().manual_seed(seed)
        for _ in range(example["STEPS"]):
            features, target = example["batch"](generator)
            loss = torch.nn.functional.mse_loss(model(features), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert stacked == pytest.approx(loss.item(), rel=1e-4)
