"""GPU pools of a cluster specification: which machine takes which GPU, and how many agents fit."""

from __future__ import annotations

import pytest

from deployer.gke.specification import count_slots
from tests.gke.specs import A100, HEAD, T4, complain, parse_choice

N1_HINT = "only N1 machines can have attached GPUs, such as n1-standard-8"
RESERVATION_HINT = "the reservation's name, or projects/PROJECT/reservations/NAME"
INT_HINT = "write digits without quotes, such as 2"
BOOL_HINT = "write true or false, without quotes"
L4 = "accelerator: nvidia-l4"


@pytest.mark.parametrize(
    ("gpu", "message", "hint"),
    [
        ("machine_type: n1-standard-8", "accelerator: is missing", "add `accelerator:`"),
        ("accelerator: nvidia-tesla-t4", "machine_type: is missing", "add `machine_type:`"),
        (f"{T4}, cont: 1", "cont: unknown key", "did you mean `count`?"),
        (f"{T4}, count: two", "count: 'two' is not a whole number", INT_HINT),
        (f"{T4}, spot: 'yes'", "spot: 'yes' is not true or false", BOOL_HINT),
        (f"{T4}, max_nodes: 0", "max_nodes: 0 is below 1", "write 1 or more"),
        (f"{T4}, max_nodes: 1001", "max_nodes: 1,001 is above 1,000", "write 1000 or less"),
        (
            f"{T4}, driver_version: new",
            "driver_version: 'new' is not known",
            "one of: 'default', 'latest' or 'disabled'",
        ),
        (f"{T4}, partition_size: half", "partition_size: 'half' is not valid", "such as 1g.5gb"),
        (
            f"{T4}, sharing: {{strategy: mig, clients: 2}}",
            "sharing.strategy: 'mig' is not known",
            "one of: 'time-sharing' or 'mps'",
        ),
        (
            f"{T4}, sharing: {{strategy: mps, clients: 49}}",
            "sharing.clients: 49 is above 48",
            "write 48 or less",
        ),
        (
            f"{T4}, sharing: {{strategy: mps, client: 4, clients: 4}}",
            "sharing.client: unknown key",
            "did you mean `clients`?",
        ),
        (
            f"{T4}, zones: [us-central1]",
            "zones[0]: 'us-central1' is not valid",
            "a zone such as us-central1-a",
        ),
        (
            f"{T4}, zones: [us-central1-b, europe-west4-a]",
            "zones[1]: europe-west4-a is not in us-central1",
            "nodes are in the region of the cluster: see `location`",
        ),
        (
            "accelerator: t4, machine_type: n1-standard-8",
            "accelerator: 't4' is not Google's name for it",
            "write nvidia-tesla-t4",
        ),
        (
            "accelerator: nvidia-a100, machine_type: n1-standard-8",
            "accelerator: 'nvidia-a100' is not Google's name for it",
            "write nvidia-a100-80gb or nvidia-tesla-a100",
        ),
        (
            "accelerator: Nvidia-L4x, machine_type: n1-standard-8",
            "accelerator: 'Nvidia-L4x' is not an accelerator",
            "such as nvidia-l4",
        ),
        (
            "accelerator: nvidia-tesla-t4, machine_type: e2-standard-8",
            "machine_type: e2-standard-8 does not support nvidia-tesla-t4",
            N1_HINT,
        ),
        (
            "accelerator: nvidia-tesla-t4, machine_type: g1-small",
            "machine_type: g1-small does not support nvidia-tesla-t4",
            N1_HINT,
        ),
        (f"{T4}, count: 3", "count: a machine cannot have 3 of nvidia-tesla-t4", "one of: 1, 2, 4"),
        (
            "accelerator: nvidia-tesla-v100, machine_type: n1-standard-8, count: 16",
            "count: a machine cannot have 16 of nvidia-tesla-v100",
            "one of: 1, 2, 4, 8",
        ),
        (
            f"{L4}, machine_type: n1-standard-8",
            "machine_type: n1-standard-8 has no nvidia-l4",
            "it comes with the machine types g2-*",
        ),
        (
            "accelerator: nvidia-h200-141gb, machine_type: n1-standard-8",
            "machine_type: n1-standard-8 has no nvidia-h200-141gb",
            "it comes with the machine types a3-ultragpu-*",
        ),
        (
            "accelerator: nvidia-tesla-t4, machine_type: g2-standard-4",
            "accelerator: g2-standard-4 comes with nvidia-l4, not with nvidia-tesla-t4",
            "write nvidia-l4, or another machine_type",
        ),
        (
            "accelerator: nvidia-tesla-a100, machine_type: a2-ultragpu-1g",
            "accelerator: a2-ultragpu-1g comes with nvidia-a100-80gb, not with nvidia-tesla-a100",
            "write nvidia-a100-80gb, or another machine_type",
        ),
        (
            f"{L4}, machine_type: g2-standard-24",
            "count: g2-standard-24 comes with 2 GPUs, not with 1",
            "write count: 2",
        ),
        (
            f"{L4}, machine_type: g2-standard-32, count: 4",
            "count: g2-standard-32 comes with 1 GPU, not with 4",
            "write count: 1",
        ),
        (
            "accelerator: nvidia-h100-80gb, machine_type: a3-highgpu-8g",
            "count: a3-highgpu-8g comes with 8 GPUs, not with 1",
            "write count: 8",
        ),
        (
            f"{A100}, partition_size: 1g.10gb",
            "partition_size: nvidia-tesla-a100 has no partition 1g.10gb",
            "one of: 1g.5gb, 2g.10gb, 3g.20gb, 7g.40gb",
        ),
        (
            f"{T4}, partition_size: 1g.5gb",
            "partition_size: nvidia-tesla-t4 cannot be partitioned",
            "only A100, H100 and later GPUs can; remove it, or choose one of them",
        ),
        (
            f"{A100}, partition_size: 1g.5gb, sharing: {{strategy: mps, clients: 2}}",
            "sharing: MPS does not share partitions of a GPU",
            "strategy: time-sharing, or remove partition_size",
        ),
        (
            f"{T4}, spot: true, reservation: mine",
            "reservation: conflicts with `spot`",
            "choose one of them",
        ),
        (f"{T4}, reservation: My", "reservation: 'My' is not valid", RESERVATION_HINT),
        (
            "accelerator: nvidia-h100-80gb, machine_type: a3-highgpu-2g, count: 2",
            "machine_type: a3-highgpu-2g is not sold on demand, only by `spot` or `flex_start`",
            "write spot: true or flex_start: true",
        ),
        (
            "accelerator: nvidia-h200-141gb, machine_type: a3-ultragpu-8g, count: 8",
            "machine_type: a3-ultragpu-8g is not sold on demand, only by `spot` or `flex_start` "
            "or `reservation`",
            "write spot: true or flex_start: true or reservation: NAME",
        ),
        (
            "accelerator: nvidia-gb200, machine_type: a4x-highgpu-4g, count: 4, spot: true",
            "machine_type: a4x-highgpu-4g is not sold on demand, only by `reservation`",
            "write reservation: NAME",
        ),
        (
            f"{L4}, machine_type: g2-standard-4, partition_size: 1g.5gb",
            "partition_size: nvidia-l4 cannot be partitioned",
            "only A100, H100 and later GPUs can; remove it, or choose one of them",
        ),
    ],
)
def test_complaints_about_gpus(gpu: str, message: str, hint: str) -> None:
    said = complain(f"{HEAD}gpus:\n- {{{gpu}}}")
    assert (f"lab.yaml:4: gpus[0].{message}", hint) in said
    # A wrong name of the accelerator leaves it open what the machine should be.
    assert len(said) == 1 or message.startswith("accelerator: '")


@pytest.mark.parametrize(
    "gpu",
    [
        "accelerator: nvidia-tesla-t4, machine_type: custom-8-32768, count: 4",
        "accelerator: nvidia-tesla-p100, machine_type: n1-highmem-8",
        f"{L4}, machine_type: g2-standard-96, count: 8",
        f"{L4}, machine_type: g2-custom-8-49152",
        "accelerator: nvidia-tesla-a100, machine_type: a2-megagpu-16g, count: 16",
        "accelerator: nvidia-h100-80gb, machine_type: a3-highgpu-1g, partition_size: 1g.20gb, "
        "flex_start: true",
        f"{A100}, partition_size: 1g.5gb, sharing: {{strategy: time-sharing, clients: 2}}",
        f"{T4}, reservation: projects/shared/reservations/gpus",
        "accelerator: nvidia-h100-mega-80gb, machine_type: a3-megagpu-8g, count: 8",
        "accelerator: nvidia-b200, machine_type: a4-highgpu-8g, count: 8, spot: true",
        "accelerator: nvidia-gb200, machine_type: a4x-highgpu-4g, count: 4, reservation: mine",
        "accelerator: nvidia-rtx-pro-6000, machine_type: g4-standard-96, count: 2",
        # What Google will call the next one is not known, and not refused.
        "accelerator: nvidia-x900, machine_type: n1-standard-8, count: 3",
    ],
)
def test_what_works(gpu: str) -> None:
    assert parse_choice(gpu).accelerator in gpu


@pytest.mark.parametrize(
    ("gpu", "slots"),
    [
        (T4, 1),
        (f"{T4}, count: 4", 4),
        (f"{T4}, count: 2, sharing: {{strategy: mps, clients: 3}}", 6),
        (f"{A100}, partition_size: 1g.5gb", 7),
        (f"{A100}, partition_size: 2g.10gb", 3),
        (f"{A100}, partition_size: 3g.20gb", 2),
        (f"{A100}, partition_size: 7g.40gb", 1),
        (f"{A100}, partition_size: 1g.5gb, sharing: {{strategy: time-sharing, clients: 2}}", 14),
        (
            "accelerator: nvidia-h100-80gb, machine_type: a3-highgpu-1g, partition_size: 1g.20gb, "
            "spot: true",
            4,
        ),
        (
            "accelerator: nvidia-h200-141gb, machine_type: a3-ultragpu-8g, count: 8, spot: true, "
            "partition_size: 3g.71gb",
            16,
        ),
    ],
)
def test_how_many_agents_fit_onto_a_node(gpu: str, slots: int) -> None:
    assert count_slots(parse_choice(gpu)) == slots
