"""A function for each model of the catalogue: ``sky.accelerators.H100(count=4)``.

Each returns an Accelerator with the memory that the catalogue knows. What the catalogue does not
have is asked for with ``Custom``.

Made by tools/catalogue.py from skyward/spec/accelerators.tsv; a test compares them.
"""

# ruff: noqa: N802 (the functions have the names of the models)

from typing import TYPE_CHECKING, Literal

from skyward.spec.accelerator import Accelerator as Accelerator
from skyward.spec.accelerator import Mig as Mig
from skyward.spec.accelerator import custom, from_catalogue, namespace_of

Custom = custom

# fmt: off
_NVIDIA = Literal[
    "K80", "M60", "P4", "P40", "P100", "V100", "V100-32", "V100-32GB", "V100-16", "V100-16GB",
    "T4", "T4G", "A2", "A10", "A10G", "A16", "A30", "A40", "A100", "A100-80", "A100-80GB",
    "A100-40", "A100-40GB", "A100X", "A800", "L4", "L40", "L40S", "H100", "H100-80",
    "H100-80GB", "H100-40", "H100-40GB", "H100-SXM", "H100-PCIe", "H100-NVL", "H200",
    "H200-NVL", "GH200", "B100", "B200", "B300", "GB200", "GB300", "GTX 1050", "GTX 1050 Ti",
    "GTX 1060", "GTX 1070", "GTX 1070 Ti", "GTX 1080", "GTX 1080 Ti", "Titan Xp",
    "Quadro P2000", "Quadro P4000", "Titan V", "GTX 1650", "GTX 1660", "GTX 1660 Super",
    "GTX 1660 Ti", "RTX 2060", "RTX 2060 Super", "RTX 2070", "RTX 2070 Super", "RTX 2080",
    "RTX 2080 Super", "RTX 2080 Ti", "Titan RTX", "Quadro RTX 4000", "Quadro RTX 5000",
    "Quadro RTX 6000", "Quadro RTX 8000", "CMP 50HX", "RTX 3050", "RTX 3060", "RTX 3060 Ti",
    "RTX 3060 Laptop", "RTX 3070", "RTX 3070 Ti", "RTX 3080", "RTX 3080 Ti", "RTX 3090",
    "RTX 3090 Ti", "RTX A2000", "RTX A4000", "RTX A4500", "RTX A5000", "RTX A5000 Pro",
    "RTX A6000", "RTX 4060", "RTX 4060 Ti", "RTX 4070", "RTX 4070 Super", "RTX 4070 Ti",
    "RTX 4070 Ti Super", "RTX 4080", "RTX 4080 Super", "RTX 4090", "RTX 4090D", "RTX 2000 Ada",
    "RTX 4000 Ada", "RTX 4500 Ada", "RTX 5000 Ada", "RTX 5880 Ada", "RTX 6000 Ada", "RTX 5060",
    "RTX 5060 Ti", "RTX 5070", "RTX 5070 Ti", "RTX 5080", "RTX 5090", "RTX PRO 4000",
    "RTX PRO 4500", "RTX PRO 5000", "RTX PRO 6000", "RTX PRO 6000 MaxQ", "RTX PRO 6000 S",
    "RTX PRO 6000 WK", "RTX PRO 6000 WS", "RTX PRO Server 6000", "RTX3080", "RTX3090",
    "RTX4080", "RTX4090"
]

AMD = Literal[
    "MI50", "MI100", "MI210", "MI250", "MI250X", "MI300A", "MI300B", "MI300X", "MI325X",
    "MI350X", "MI355X", "RadeonPro-V520", "RadeonPro-V710", "Instinct-MI25"
]

Habana = Literal[
    "Gaudi", "Gaudi2", "Gaudi3"
]

Trainium = Literal[
    "Trainium1", "Trainium2", "Trainium3"
]

Inferentia = Literal[
    "Inferentia1", "Inferentia2"
]

TPU = Literal[
    "TPUv2", "TPUv3", "TPUv4", "TPUv5e", "TPUv5p", "TPUv6", "TPUv2-8", "TPUv3-8", "TPUv3-32",
    "TPUv4-64", "TPUv5e-4", "TPUv5p-8"
]

_KEYS = {
    "nvidia": """
    K80 M60 P4 P40 P100 V100 V10032 V10032GB V10016 V10016GB T4 T4G A2 A10 A10G A16 A30 A40
    A100 A10080 A10080GB A10040 A10040GB A100X A800 L4 L40 L40S H100 H10080 H10080GB H10040
    H10040GB H100SXM H100PCIE H100NVL H200 H200NVL GH200 B100 B200 B300 GB200 GB300 GTX1050
    GTX1050TI GTX1060 GTX1070 GTX1070TI GTX1080 GTX1080TI TITANXP QUADROP2000 QUADROP4000
    TITANV GTX1650 GTX1660 GTX1660SUPER GTX1660TI RTX2060 RTX2060SUPER RTX2070 RTX2070SUPER
    RTX2080 RTX2080SUPER RTX2080TI TITANRTX QUADRORTX4000 QUADRORTX5000 QUADRORTX6000
    QUADRORTX8000 CMP50HX RTX3050 RTX3060 RTX3060TI RTX3060LAPTOP RTX3070 RTX3070TI RTX3080
    RTX3080TI RTX3090 RTX3090TI RTXA2000 RTXA4000 RTXA4500 RTXA5000 RTXA5000PRO RTXA6000
    RTX4060 RTX4060TI RTX4070 RTX4070SUPER RTX4070TI RTX4070TISUPER RTX4080 RTX4080SUPER
    RTX4090 RTX4090D RTX2000ADA RTX4000ADA RTX4500ADA RTX5000ADA RTX5880ADA RTX6000ADA RTX5060
    RTX5060TI RTX5070 RTX5070TI RTX5080 RTX5090 RTXPRO4000 RTXPRO4500 RTXPRO5000 RTXPRO6000
    RTXPRO6000MAXQ RTXPRO6000S RTXPRO6000WK RTXPRO6000WS RTXPROSERVER6000
    """,
    "amd": """
    MI50 MI100 MI210 MI250 MI250X MI300A MI300B MI300X MI325X MI350X MI355X RADEONPROV520
    RADEONPROV710 INSTINCTMI25
    """,
    "habana": """
    GAUDI GAUDI2 GAUDI3
    """,
    "aws": """
    TRAINIUM1 TRAINIUM2 TRAINIUM3 INFERENTIA1 INFERENTIA2
    """,
    "google": """
    TPUV2 TPUV3 TPUV4 TPUV5E TPUV5P TPUV6 TPUV28 TPUV38 TPUV332 TPUV464 TPUV5E4 TPUV5P8
    """,
}
# fmt: on

VENDORS = {key: vendor for vendor, keys in _KEYS.items() for key in keys.split()}
"""Maker of each model and variant, by the name in capitals without blanks and dashes."""

GPU = _NVIDIA | AMD | None
"""Names of all GPUs, as a type."""

if TYPE_CHECKING:
    NVIDIA = _NVIDIA
else:
    NVIDIA = namespace_of(_NVIDIA)
    """Names of NVIDIA's models: a type (``gpu: NVIDIA``) and a namespace (``NVIDIA.A100``)."""


def K80(count: float = 1) -> Accelerator:
    """K80: 12GB, Kepler."""
    return from_catalogue("K80", count)


def M60(count: float = 1) -> Accelerator:
    """M60: 8GB, Maxwell."""
    return from_catalogue("M60", count)


def P4(count: float = 1) -> Accelerator:
    """P4: 8GB, Pascal."""
    return from_catalogue("P4", count)


def P40(count: float = 1) -> Accelerator:
    """P40: 24GB, Pascal."""
    return from_catalogue("P40", count)


def P100(count: float = 1) -> Accelerator:
    """P100: 16GB, Pascal."""
    return from_catalogue("P100", count)


def V100(count: float = 1, memory: Literal["32GB", "16GB"] | None = None) -> Accelerator:
    """V100: 32GB, Volta."""
    return from_catalogue("V100", count, memory=memory)


def T4(count: float = 1) -> Accelerator:
    """T4: 16GB, Turing."""
    return from_catalogue("T4", count)


def T4G(count: float = 1) -> Accelerator:
    """T4G: 16GB, Turing."""
    return from_catalogue("T4G", count)


def A2(count: float = 1) -> Accelerator:
    """A2: 16GB, Ampere."""
    return from_catalogue("A2", count)


def A10(count: float = 1) -> Accelerator:
    """A10: 24GB, Ampere."""
    return from_catalogue("A10", count)


def A10G(count: float = 1) -> Accelerator:
    """A10G: 24GB, Ampere."""
    return from_catalogue("A10G", count)


def A16(count: float = 1) -> Accelerator:
    """A16: 16GB, Ampere."""
    return from_catalogue("A16", count)


def A30(count: float = 1) -> Accelerator:
    """A30: 24GB, Ampere."""
    return from_catalogue("A30", count)


def A40(count: float = 1) -> Accelerator:
    """A40: 48GB, Ampere."""
    return from_catalogue("A40", count)


def A100(
    count: float = 1, memory: Literal["80GB", "40GB"] | None = None, mig: Mig | None = None
) -> Accelerator:
    """A100: 80GB, Ampere."""
    return from_catalogue("A100", count, memory=memory, mig=mig)


def A100X(count: float = 1) -> Accelerator:
    """A100X: 80GB, Ampere."""
    return from_catalogue("A100X", count)


def A800(count: float = 1) -> Accelerator:
    """A800: 80GB, Ampere."""
    return from_catalogue("A800", count)


def L4(count: float = 1) -> Accelerator:
    """L4: 24GB, Ada."""
    return from_catalogue("L4", count)


def L40(count: float = 1) -> Accelerator:
    """L40: 48GB, Ada."""
    return from_catalogue("L40", count)


def L40S(count: float = 1) -> Accelerator:
    """L40S: 48GB, Ada."""
    return from_catalogue("L40S", count)


def H100(
    count: float = 1,
    memory: Literal["80GB", "40GB"] | None = None,
    mig: Mig | None = None,
    *,
    form_factor: Literal["SXM", "PCIe", "NVL"] | None = None,
) -> Accelerator:
    """H100: 80GB, Hopper."""
    return from_catalogue("H100", count, memory=memory, mig=mig, form_factor=form_factor)


def H200(
    count: float = 1,
    memory: str | None = None,
    mig: Mig | None = None,
    *,
    form_factor: Literal["SXM", "NVL"] | None = None,
) -> Accelerator:
    """H200: 141GB, Hopper."""
    return from_catalogue("H200", count, memory=memory, mig=mig, form_factor=form_factor)


def GH200(count: float = 1) -> Accelerator:
    """GH200: 96GB, Hopper."""
    return from_catalogue("GH200", count)


def B100(count: float = 1) -> Accelerator:
    """B100: 192GB, Blackwell."""
    return from_catalogue("B100", count)


def B200(count: float = 1) -> Accelerator:
    """B200: 192GB, Blackwell."""
    return from_catalogue("B200", count)


def B300(count: float = 1) -> Accelerator:
    """B300: 288GB, Blackwell."""
    return from_catalogue("B300", count)


def GB200(count: float = 1) -> Accelerator:
    """GB200: 384GB, Blackwell."""
    return from_catalogue("GB200", count)


def GB300(count: float = 1) -> Accelerator:
    """GB300: 288GB, Blackwell."""
    return from_catalogue("GB300", count)


def GTX_1050(count: float = 1) -> Accelerator:
    """GTX 1050: 2GB, Pascal."""
    return from_catalogue("GTX 1050", count)


def GTX_1050_Ti(count: float = 1) -> Accelerator:
    """GTX 1050 Ti: 4GB, Pascal."""
    return from_catalogue("GTX 1050 Ti", count)


def GTX_1060(count: float = 1) -> Accelerator:
    """GTX 1060: 6GB, Pascal."""
    return from_catalogue("GTX 1060", count)


def GTX_1070(count: float = 1) -> Accelerator:
    """GTX 1070: 8GB, Pascal."""
    return from_catalogue("GTX 1070", count)


def GTX_1070_Ti(count: float = 1) -> Accelerator:
    """GTX 1070 Ti: 8GB, Pascal."""
    return from_catalogue("GTX 1070 Ti", count)


def GTX_1080(count: float = 1) -> Accelerator:
    """GTX 1080: 8GB, Pascal."""
    return from_catalogue("GTX 1080", count)


def GTX_1080_Ti(count: float = 1) -> Accelerator:
    """GTX 1080 Ti: 11GB, Pascal."""
    return from_catalogue("GTX 1080 Ti", count)


def Titan_Xp(count: float = 1) -> Accelerator:
    """Titan Xp: 12GB, Pascal."""
    return from_catalogue("Titan Xp", count)


def Quadro_P2000(count: float = 1) -> Accelerator:
    """Quadro P2000: 5GB, Pascal."""
    return from_catalogue("Quadro P2000", count)


def Quadro_P4000(count: float = 1) -> Accelerator:
    """Quadro P4000: 8GB, Pascal."""
    return from_catalogue("Quadro P4000", count)


def Titan_V(count: float = 1) -> Accelerator:
    """Titan V: 12GB, Volta."""
    return from_catalogue("Titan V", count)


def GTX_1650(count: float = 1) -> Accelerator:
    """GTX 1650: 4GB, Turing."""
    return from_catalogue("GTX 1650", count)


def GTX_1660(count: float = 1) -> Accelerator:
    """GTX 1660: 6GB, Turing."""
    return from_catalogue("GTX 1660", count)


def GTX_1660_Super(count: float = 1) -> Accelerator:
    """GTX 1660 Super: 6GB, Turing."""
    return from_catalogue("GTX 1660 Super", count)


def GTX_1660_Ti(count: float = 1) -> Accelerator:
    """GTX 1660 Ti: 6GB, Turing."""
    return from_catalogue("GTX 1660 Ti", count)


def RTX_2060(count: float = 1) -> Accelerator:
    """RTX 2060: 6GB, Turing."""
    return from_catalogue("RTX 2060", count)


def RTX_2060_Super(count: float = 1) -> Accelerator:
    """RTX 2060 Super: 8GB, Turing."""
    return from_catalogue("RTX 2060 Super", count)


def RTX_2070(count: float = 1) -> Accelerator:
    """RTX 2070: 8GB, Turing."""
    return from_catalogue("RTX 2070", count)


def RTX_2070_Super(count: float = 1) -> Accelerator:
    """RTX 2070 Super: 8GB, Turing."""
    return from_catalogue("RTX 2070 Super", count)


def RTX_2080(count: float = 1) -> Accelerator:
    """RTX 2080: 8GB, Turing."""
    return from_catalogue("RTX 2080", count)


def RTX_2080_Super(count: float = 1) -> Accelerator:
    """RTX 2080 Super: 8GB, Turing."""
    return from_catalogue("RTX 2080 Super", count)


def RTX_2080_Ti(count: float = 1) -> Accelerator:
    """RTX 2080 Ti: 11GB, Turing."""
    return from_catalogue("RTX 2080 Ti", count)


def Titan_RTX(count: float = 1) -> Accelerator:
    """Titan RTX: 24GB, Turing."""
    return from_catalogue("Titan RTX", count)


def Quadro_RTX_4000(count: float = 1) -> Accelerator:
    """Quadro RTX 4000: 8GB, Turing."""
    return from_catalogue("Quadro RTX 4000", count)


def Quadro_RTX_5000(count: float = 1) -> Accelerator:
    """Quadro RTX 5000: 16GB, Turing."""
    return from_catalogue("Quadro RTX 5000", count)


def Quadro_RTX_6000(count: float = 1) -> Accelerator:
    """Quadro RTX 6000: 24GB, Turing."""
    return from_catalogue("Quadro RTX 6000", count)


def Quadro_RTX_8000(count: float = 1) -> Accelerator:
    """Quadro RTX 8000: 48GB, Turing."""
    return from_catalogue("Quadro RTX 8000", count)


def CMP_50HX(count: float = 1) -> Accelerator:
    """CMP 50HX: 10GB, Turing."""
    return from_catalogue("CMP 50HX", count)


def RTX_3050(count: float = 1) -> Accelerator:
    """RTX 3050: 8GB, Ampere."""
    return from_catalogue("RTX 3050", count)


def RTX_3060(count: float = 1) -> Accelerator:
    """RTX 3060: 12GB, Ampere."""
    return from_catalogue("RTX 3060", count)


def RTX_3060_Ti(count: float = 1) -> Accelerator:
    """RTX 3060 Ti: 8GB, Ampere."""
    return from_catalogue("RTX 3060 Ti", count)


def RTX_3060_Laptop(count: float = 1) -> Accelerator:
    """RTX 3060 Laptop: 6GB, Ampere."""
    return from_catalogue("RTX 3060 Laptop", count)


def RTX_3070(count: float = 1) -> Accelerator:
    """RTX 3070: 8GB, Ampere."""
    return from_catalogue("RTX 3070", count)


def RTX_3070_Ti(count: float = 1) -> Accelerator:
    """RTX 3070 Ti: 8GB, Ampere."""
    return from_catalogue("RTX 3070 Ti", count)


def RTX_3080(count: float = 1) -> Accelerator:
    """RTX 3080: 10GB, Ampere."""
    return from_catalogue("RTX 3080", count)


def RTX_3080_Ti(count: float = 1) -> Accelerator:
    """RTX 3080 Ti: 12GB, Ampere."""
    return from_catalogue("RTX 3080 Ti", count)


def RTX_3090(count: float = 1) -> Accelerator:
    """RTX 3090: 24GB, Ampere."""
    return from_catalogue("RTX 3090", count)


def RTX_3090_Ti(count: float = 1) -> Accelerator:
    """RTX 3090 Ti: 24GB, Ampere."""
    return from_catalogue("RTX 3090 Ti", count)


def RTX_A2000(count: float = 1) -> Accelerator:
    """RTX A2000: 12GB, Ampere."""
    return from_catalogue("RTX A2000", count)


def RTX_A4000(count: float = 1) -> Accelerator:
    """RTX A4000: 16GB, Ampere."""
    return from_catalogue("RTX A4000", count)


def RTX_A4500(count: float = 1) -> Accelerator:
    """RTX A4500: 20GB, Ampere."""
    return from_catalogue("RTX A4500", count)


def RTX_A5000(count: float = 1) -> Accelerator:
    """RTX A5000: 24GB, Ampere."""
    return from_catalogue("RTX A5000", count)


def RTX_A5000_Pro(count: float = 1) -> Accelerator:
    """RTX A5000 Pro: 24GB, Ampere."""
    return from_catalogue("RTX A5000 Pro", count)


def RTX_A6000(count: float = 1) -> Accelerator:
    """RTX A6000: 48GB, Ampere."""
    return from_catalogue("RTX A6000", count)


def RTX_4060(count: float = 1) -> Accelerator:
    """RTX 4060: 8GB, Ada."""
    return from_catalogue("RTX 4060", count)


def RTX_4060_Ti(count: float = 1) -> Accelerator:
    """RTX 4060 Ti: 8GB, Ada."""
    return from_catalogue("RTX 4060 Ti", count)


def RTX_4070(count: float = 1) -> Accelerator:
    """RTX 4070: 12GB, Ada."""
    return from_catalogue("RTX 4070", count)


def RTX_4070_Super(count: float = 1) -> Accelerator:
    """RTX 4070 Super: 12GB, Ada."""
    return from_catalogue("RTX 4070 Super", count)


def RTX_4070_Ti(count: float = 1) -> Accelerator:
    """RTX 4070 Ti: 12GB, Ada."""
    return from_catalogue("RTX 4070 Ti", count)


def RTX_4070_Ti_Super(count: float = 1) -> Accelerator:
    """RTX 4070 Ti Super: 16GB, Ada."""
    return from_catalogue("RTX 4070 Ti Super", count)


def RTX_4080(count: float = 1) -> Accelerator:
    """RTX 4080: 16GB, Ada."""
    return from_catalogue("RTX 4080", count)


def RTX_4080_Super(count: float = 1) -> Accelerator:
    """RTX 4080 Super: 16GB, Ada."""
    return from_catalogue("RTX 4080 Super", count)


def RTX_4090(count: float = 1) -> Accelerator:
    """RTX 4090: 24GB, Ada."""
    return from_catalogue("RTX 4090", count)


def RTX_4090D(count: float = 1) -> Accelerator:
    """RTX 4090D: 24GB, Ada."""
    return from_catalogue("RTX 4090D", count)


def RTX_2000_Ada(count: float = 1) -> Accelerator:
    """RTX 2000 Ada: 16GB, Ada."""
    return from_catalogue("RTX 2000 Ada", count)


def RTX_4000_Ada(count: float = 1) -> Accelerator:
    """RTX 4000 Ada: 20GB, Ada."""
    return from_catalogue("RTX 4000 Ada", count)


def RTX_4500_Ada(count: float = 1) -> Accelerator:
    """RTX 4500 Ada: 24GB, Ada."""
    return from_catalogue("RTX 4500 Ada", count)


def RTX_5000_Ada(count: float = 1) -> Accelerator:
    """RTX 5000 Ada: 32GB, Ada."""
    return from_catalogue("RTX 5000 Ada", count)


def RTX_5880_Ada(count: float = 1) -> Accelerator:
    """RTX 5880 Ada: 48GB, Ada."""
    return from_catalogue("RTX 5880 Ada", count)


def RTX_6000_Ada(count: float = 1) -> Accelerator:
    """RTX 6000 Ada: 48GB, Ada."""
    return from_catalogue("RTX 6000 Ada", count)


def RTX_5060(count: float = 1) -> Accelerator:
    """RTX 5060: 8GB, Blackwell."""
    return from_catalogue("RTX 5060", count)


def RTX_5060_Ti(count: float = 1) -> Accelerator:
    """RTX 5060 Ti: 16GB, Blackwell."""
    return from_catalogue("RTX 5060 Ti", count)


def RTX_5070(count: float = 1) -> Accelerator:
    """RTX 5070: 12GB, Blackwell."""
    return from_catalogue("RTX 5070", count)


def RTX_5070_Ti(count: float = 1) -> Accelerator:
    """RTX 5070 Ti: 16GB, Blackwell."""
    return from_catalogue("RTX 5070 Ti", count)


def RTX_5080(count: float = 1) -> Accelerator:
    """RTX 5080: 16GB, Blackwell."""
    return from_catalogue("RTX 5080", count)


def RTX_5090(count: float = 1) -> Accelerator:
    """RTX 5090: 32GB, Blackwell."""
    return from_catalogue("RTX 5090", count)


def RTX_PRO_4000(count: float = 1) -> Accelerator:
    """RTX PRO 4000: 24GB, Blackwell."""
    return from_catalogue("RTX PRO 4000", count)


def RTX_PRO_4500(count: float = 1) -> Accelerator:
    """RTX PRO 4500: 32GB, Blackwell."""
    return from_catalogue("RTX PRO 4500", count)


def RTX_PRO_5000(count: float = 1) -> Accelerator:
    """RTX PRO 5000: 48GB, Blackwell."""
    return from_catalogue("RTX PRO 5000", count)


def RTX_PRO_6000(count: float = 1) -> Accelerator:
    """RTX PRO 6000: 96GB, Blackwell."""
    return from_catalogue("RTX PRO 6000", count)


def RTX_PRO_6000_MaxQ(count: float = 1) -> Accelerator:
    """RTX PRO 6000 MaxQ: 96GB, Blackwell."""
    return from_catalogue("RTX PRO 6000 MaxQ", count)


def RTX_PRO_6000_S(count: float = 1) -> Accelerator:
    """RTX PRO 6000 S: 96GB, Blackwell."""
    return from_catalogue("RTX PRO 6000 S", count)


def RTX_PRO_6000_WK(count: float = 1) -> Accelerator:
    """RTX PRO 6000 WK: 96GB, Blackwell."""
    return from_catalogue("RTX PRO 6000 WK", count)


def RTX_PRO_6000_WS(count: float = 1) -> Accelerator:
    """RTX PRO 6000 WS: 96GB, Blackwell."""
    return from_catalogue("RTX PRO 6000 WS", count)


def RTX_PRO_Server_6000(count: float = 1) -> Accelerator:
    """RTX PRO Server 6000: 96GB, Blackwell."""
    return from_catalogue("RTX PRO Server 6000", count)


def MI50(count: float = 1) -> Accelerator:
    """MI50: 16GB, CDNA."""
    return from_catalogue("MI50", count)


def MI100(count: float = 1) -> Accelerator:
    """MI100: 32GB, CDNA."""
    return from_catalogue("MI100", count)


def MI210(count: float = 1) -> Accelerator:
    """MI210: 64GB, CDNA2."""
    return from_catalogue("MI210", count)


def MI250(count: float = 1) -> Accelerator:
    """MI250: 128GB, CDNA2."""
    return from_catalogue("MI250", count)


def MI250X(count: float = 1) -> Accelerator:
    """MI250X: 128GB, CDNA2."""
    return from_catalogue("MI250X", count)


def MI300A(count: float = 1) -> Accelerator:
    """MI300A: 128GB, CDNA3."""
    return from_catalogue("MI300A", count)


def MI300B(count: float = 1) -> Accelerator:
    """MI300B: 192GB, CDNA3."""
    return from_catalogue("MI300B", count)


def MI300X(count: float = 1) -> Accelerator:
    """MI300X: 192GB, CDNA3."""
    return from_catalogue("MI300X", count)


def MI325X(count: float = 1) -> Accelerator:
    """MI325X: 256GB, CDNA3."""
    return from_catalogue("MI325X", count)


def MI350X(count: float = 1) -> Accelerator:
    """MI350X: 288GB, CDNA4."""
    return from_catalogue("MI350X", count)


def MI355X(count: float = 1) -> Accelerator:
    """MI355X: 288GB, CDNA4."""
    return from_catalogue("MI355X", count)


def RadeonPro_V520(count: float = 1) -> Accelerator:
    """RadeonPro-V520: 8GB, RDNA."""
    return from_catalogue("RadeonPro-V520", count)


def RadeonPro_V710(count: float = 1) -> Accelerator:
    """RadeonPro-V710: 16GB, RDNA2."""
    return from_catalogue("RadeonPro-V710", count)


def Instinct_MI25(count: float = 1) -> Accelerator:
    """Instinct-MI25: 16GB, GCN."""
    return from_catalogue("Instinct-MI25", count)


def Gaudi(count: float = 1) -> Accelerator:
    """Gaudi: 32GB, Gaudi."""
    return from_catalogue("Gaudi", count)


def Gaudi2(count: float = 1) -> Accelerator:
    """Gaudi2: 96GB, Gaudi."""
    return from_catalogue("Gaudi2", count)


def Gaudi3(count: float = 1) -> Accelerator:
    """Gaudi3: 128GB, Gaudi."""
    return from_catalogue("Gaudi3", count)


def Trainium1(count: float = 1) -> Accelerator:
    """Trainium1: 32GB, Trainium."""
    return from_catalogue("Trainium1", count)


def Trainium2(count: float = 1) -> Accelerator:
    """Trainium2: 64GB, Trainium."""
    return from_catalogue("Trainium2", count)


def Trainium3(count: float = 1) -> Accelerator:
    """Trainium3: 128GB, Trainium."""
    return from_catalogue("Trainium3", count)


def Inferentia1(count: float = 1) -> Accelerator:
    """Inferentia1: 8GB, Inferentia."""
    return from_catalogue("Inferentia1", count)


def Inferentia2(count: float = 1) -> Accelerator:
    """Inferentia2: 32GB, Inferentia."""
    return from_catalogue("Inferentia2", count)


def TPUv2(count: float = 1) -> Accelerator:
    """TPUv2: 8GB, TPU."""
    return from_catalogue("TPUv2", count)


def TPUv3(count: float = 1) -> Accelerator:
    """TPUv3: 16GB, TPU."""
    return from_catalogue("TPUv3", count)


def TPUv4(count: float = 1) -> Accelerator:
    """TPUv4: 32GB, TPU."""
    return from_catalogue("TPUv4", count)


def TPUv5e(count: float = 1) -> Accelerator:
    """TPUv5e: 16GB, TPU."""
    return from_catalogue("TPUv5e", count)


def TPUv5p(count: float = 1) -> Accelerator:
    """TPUv5p: 95GB, TPU."""
    return from_catalogue("TPUv5p", count)


def TPUv6(count: float = 1) -> Accelerator:
    """TPUv6: 32GB, TPU."""
    return from_catalogue("TPUv6", count)


def TPUv2_8(count: float = 8) -> Accelerator:
    """TPUv2-8: 64GB, TPU, 8 cores."""
    return from_catalogue("TPUv2-8", count)


def TPUv3_8(count: float = 8) -> Accelerator:
    """TPUv3-8: 128GB, TPU, 8 cores."""
    return from_catalogue("TPUv3-8", count)


def TPUv3_32(count: float = 32) -> Accelerator:
    """TPUv3-32: 512GB, TPU, 32 cores."""
    return from_catalogue("TPUv3-32", count)


def TPUv4_64(count: float = 64) -> Accelerator:
    """TPUv4-64: 2048GB, TPU, 64 cores."""
    return from_catalogue("TPUv4-64", count)


def TPUv5e_4(count: float = 4) -> Accelerator:
    """TPUv5e-4: 64GB, TPU, 4 cores."""
    return from_catalogue("TPUv5e-4", count)


def TPUv5p_8(count: float = 8) -> Accelerator:
    """TPUv5p-8: 760GB, TPU, 8 cores."""
    return from_catalogue("TPUv5p-8", count)


class _NVIDIAFactories:
    """``Accelerator.NVIDIA``: the models of NVIDIA."""

    K80 = staticmethod(K80)
    M60 = staticmethod(M60)
    P4 = staticmethod(P4)
    P40 = staticmethod(P40)
    P100 = staticmethod(P100)
    V100 = staticmethod(V100)
    T4 = staticmethod(T4)
    T4G = staticmethod(T4G)
    A2 = staticmethod(A2)
    A10 = staticmethod(A10)
    A10G = staticmethod(A10G)
    A16 = staticmethod(A16)
    A30 = staticmethod(A30)
    A40 = staticmethod(A40)
    A100 = staticmethod(A100)
    A100X = staticmethod(A100X)
    A800 = staticmethod(A800)
    L4 = staticmethod(L4)
    L40 = staticmethod(L40)
    L40S = staticmethod(L40S)
    H100 = staticmethod(H100)
    H200 = staticmethod(H200)
    GH200 = staticmethod(GH200)
    B100 = staticmethod(B100)
    B200 = staticmethod(B200)
    B300 = staticmethod(B300)
    GB200 = staticmethod(GB200)
    GB300 = staticmethod(GB300)
    GTX_1050 = staticmethod(GTX_1050)
    GTX1050 = staticmethod(GTX_1050)
    GTX_1050_Ti = staticmethod(GTX_1050_Ti)
    GTX1050Ti = staticmethod(GTX_1050_Ti)
    GTX_1060 = staticmethod(GTX_1060)
    GTX1060 = staticmethod(GTX_1060)
    GTX_1070 = staticmethod(GTX_1070)
    GTX1070 = staticmethod(GTX_1070)
    GTX_1070_Ti = staticmethod(GTX_1070_Ti)
    GTX1070Ti = staticmethod(GTX_1070_Ti)
    GTX_1080 = staticmethod(GTX_1080)
    GTX1080 = staticmethod(GTX_1080)
    GTX_1080_Ti = staticmethod(GTX_1080_Ti)
    GTX1080Ti = staticmethod(GTX_1080_Ti)
    Titan_Xp = staticmethod(Titan_Xp)
    TitanXp = staticmethod(Titan_Xp)
    Quadro_P2000 = staticmethod(Quadro_P2000)
    QuadroP2000 = staticmethod(Quadro_P2000)
    Quadro_P4000 = staticmethod(Quadro_P4000)
    QuadroP4000 = staticmethod(Quadro_P4000)
    Titan_V = staticmethod(Titan_V)
    TitanV = staticmethod(Titan_V)
    GTX_1650 = staticmethod(GTX_1650)
    GTX1650 = staticmethod(GTX_1650)
    GTX_1660 = staticmethod(GTX_1660)
    GTX1660 = staticmethod(GTX_1660)
    GTX_1660_Super = staticmethod(GTX_1660_Super)
    GTX1660Super = staticmethod(GTX_1660_Super)
    GTX_1660_Ti = staticmethod(GTX_1660_Ti)
    GTX1660Ti = staticmethod(GTX_1660_Ti)
    RTX_2060 = staticmethod(RTX_2060)
    RTX2060 = staticmethod(RTX_2060)
    RTX_2060_Super = staticmethod(RTX_2060_Super)
    RTX2060Super = staticmethod(RTX_2060_Super)
    RTX_2070 = staticmethod(RTX_2070)
    RTX2070 = staticmethod(RTX_2070)
    RTX_2070_Super = staticmethod(RTX_2070_Super)
    RTX2070Super = staticmethod(RTX_2070_Super)
    RTX_2080 = staticmethod(RTX_2080)
    RTX2080 = staticmethod(RTX_2080)
    RTX_2080_Super = staticmethod(RTX_2080_Super)
    RTX2080Super = staticmethod(RTX_2080_Super)
    RTX_2080_Ti = staticmethod(RTX_2080_Ti)
    RTX2080Ti = staticmethod(RTX_2080_Ti)
    Titan_RTX = staticmethod(Titan_RTX)
    TitanRTX = staticmethod(Titan_RTX)
    Quadro_RTX_4000 = staticmethod(Quadro_RTX_4000)
    QuadroRTX4000 = staticmethod(Quadro_RTX_4000)
    Quadro_RTX_5000 = staticmethod(Quadro_RTX_5000)
    QuadroRTX5000 = staticmethod(Quadro_RTX_5000)
    Quadro_RTX_6000 = staticmethod(Quadro_RTX_6000)
    QuadroRTX6000 = staticmethod(Quadro_RTX_6000)
    Quadro_RTX_8000 = staticmethod(Quadro_RTX_8000)
    QuadroRTX8000 = staticmethod(Quadro_RTX_8000)
    CMP_50HX = staticmethod(CMP_50HX)
    CMP50HX = staticmethod(CMP_50HX)
    RTX_3050 = staticmethod(RTX_3050)
    RTX3050 = staticmethod(RTX_3050)
    RTX_3060 = staticmethod(RTX_3060)
    RTX3060 = staticmethod(RTX_3060)
    RTX_3060_Ti = staticmethod(RTX_3060_Ti)
    RTX3060Ti = staticmethod(RTX_3060_Ti)
    RTX_3060_Laptop = staticmethod(RTX_3060_Laptop)
    RTX3060Laptop = staticmethod(RTX_3060_Laptop)
    RTX_3070 = staticmethod(RTX_3070)
    RTX3070 = staticmethod(RTX_3070)
    RTX_3070_Ti = staticmethod(RTX_3070_Ti)
    RTX3070Ti = staticmethod(RTX_3070_Ti)
    RTX_3080 = staticmethod(RTX_3080)
    RTX3080 = staticmethod(RTX_3080)
    RTX_3080_Ti = staticmethod(RTX_3080_Ti)
    RTX3080Ti = staticmethod(RTX_3080_Ti)
    RTX_3090 = staticmethod(RTX_3090)
    RTX3090 = staticmethod(RTX_3090)
    RTX_3090_Ti = staticmethod(RTX_3090_Ti)
    RTX3090Ti = staticmethod(RTX_3090_Ti)
    RTX_A2000 = staticmethod(RTX_A2000)
    RTXA2000 = staticmethod(RTX_A2000)
    RTX_A4000 = staticmethod(RTX_A4000)
    RTXA4000 = staticmethod(RTX_A4000)
    RTX_A4500 = staticmethod(RTX_A4500)
    RTXA4500 = staticmethod(RTX_A4500)
    RTX_A5000 = staticmethod(RTX_A5000)
    RTXA5000 = staticmethod(RTX_A5000)
    RTX_A5000_Pro = staticmethod(RTX_A5000_Pro)
    RTXA5000Pro = staticmethod(RTX_A5000_Pro)
    RTX_A6000 = staticmethod(RTX_A6000)
    RTXA6000 = staticmethod(RTX_A6000)
    RTX_4060 = staticmethod(RTX_4060)
    RTX4060 = staticmethod(RTX_4060)
    RTX_4060_Ti = staticmethod(RTX_4060_Ti)
    RTX4060Ti = staticmethod(RTX_4060_Ti)
    RTX_4070 = staticmethod(RTX_4070)
    RTX4070 = staticmethod(RTX_4070)
    RTX_4070_Super = staticmethod(RTX_4070_Super)
    RTX4070Super = staticmethod(RTX_4070_Super)
    RTX_4070_Ti = staticmethod(RTX_4070_Ti)
    RTX4070Ti = staticmethod(RTX_4070_Ti)
    RTX_4070_Ti_Super = staticmethod(RTX_4070_Ti_Super)
    RTX4070TiSuper = staticmethod(RTX_4070_Ti_Super)
    RTX_4080 = staticmethod(RTX_4080)
    RTX4080 = staticmethod(RTX_4080)
    RTX_4080_Super = staticmethod(RTX_4080_Super)
    RTX4080Super = staticmethod(RTX_4080_Super)
    RTX_4090 = staticmethod(RTX_4090)
    RTX4090 = staticmethod(RTX_4090)
    RTX_4090D = staticmethod(RTX_4090D)
    RTX4090D = staticmethod(RTX_4090D)
    RTX_2000_Ada = staticmethod(RTX_2000_Ada)
    RTX2000Ada = staticmethod(RTX_2000_Ada)
    RTX_4000_Ada = staticmethod(RTX_4000_Ada)
    RTX4000Ada = staticmethod(RTX_4000_Ada)
    RTX_4500_Ada = staticmethod(RTX_4500_Ada)
    RTX4500Ada = staticmethod(RTX_4500_Ada)
    RTX_5000_Ada = staticmethod(RTX_5000_Ada)
    RTX5000Ada = staticmethod(RTX_5000_Ada)
    RTX_5880_Ada = staticmethod(RTX_5880_Ada)
    RTX5880Ada = staticmethod(RTX_5880_Ada)
    RTX_6000_Ada = staticmethod(RTX_6000_Ada)
    RTX6000Ada = staticmethod(RTX_6000_Ada)
    RTX_5060 = staticmethod(RTX_5060)
    RTX5060 = staticmethod(RTX_5060)
    RTX_5060_Ti = staticmethod(RTX_5060_Ti)
    RTX5060Ti = staticmethod(RTX_5060_Ti)
    RTX_5070 = staticmethod(RTX_5070)
    RTX5070 = staticmethod(RTX_5070)
    RTX_5070_Ti = staticmethod(RTX_5070_Ti)
    RTX5070Ti = staticmethod(RTX_5070_Ti)
    RTX_5080 = staticmethod(RTX_5080)
    RTX5080 = staticmethod(RTX_5080)
    RTX_5090 = staticmethod(RTX_5090)
    RTX5090 = staticmethod(RTX_5090)
    RTX_PRO_4000 = staticmethod(RTX_PRO_4000)
    RTXPRO4000 = staticmethod(RTX_PRO_4000)
    RTX_PRO_4500 = staticmethod(RTX_PRO_4500)
    RTXPRO4500 = staticmethod(RTX_PRO_4500)
    RTX_PRO_5000 = staticmethod(RTX_PRO_5000)
    RTXPRO5000 = staticmethod(RTX_PRO_5000)
    RTX_PRO_6000 = staticmethod(RTX_PRO_6000)
    RTXPRO6000 = staticmethod(RTX_PRO_6000)
    RTX_PRO_6000_MaxQ = staticmethod(RTX_PRO_6000_MaxQ)
    RTXPRO6000MaxQ = staticmethod(RTX_PRO_6000_MaxQ)
    RTX_PRO_6000_S = staticmethod(RTX_PRO_6000_S)
    RTXPRO6000S = staticmethod(RTX_PRO_6000_S)
    RTX_PRO_6000_WK = staticmethod(RTX_PRO_6000_WK)
    RTXPRO6000WK = staticmethod(RTX_PRO_6000_WK)
    RTX_PRO_6000_WS = staticmethod(RTX_PRO_6000_WS)
    RTXPRO6000WS = staticmethod(RTX_PRO_6000_WS)
    RTX_PRO_Server_6000 = staticmethod(RTX_PRO_Server_6000)
    RTXPROServer6000 = staticmethod(RTX_PRO_Server_6000)


Accelerator.NVIDIA = _NVIDIAFactories
