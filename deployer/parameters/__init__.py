"""The forms that a sweep's `parameters` can have: parse, count, grid value, quantile and cdf.

Pure: knows no files and no servers. What is wrong comes back as complaints, so that the caller
decides which of them stop a sweep.
"""

from deployer.parameters.counting import expected_count
from deployer.parameters.forms import Categorical, Constant, Continuous, Integer, Parameter
from deployer.parameters.keys import nearest, number_hint, shown
from deployer.parameters.parse import Complaint, fill_distributions, parse_parameters
from deployer.parameters.space import Space
from deployer.parameters.values import same_value, value_key

__all__ = [
    "Categorical",
    "Complaint",
    "Constant",
    "Continuous",
    "Integer",
    "Parameter",
    "Space",
    "expected_count",
    "fill_distributions",
    "nearest",
    "number_hint",
    "parse_parameters",
    "same_value",
    "shown",
    "value_key",
]
