"""Objects as the API server would store them.

People write less into a manifest than a scheduler reads: requests follow from limits, priorities
from classes, selectors from label keys. `as_stored` fills that in for one object, in the order of
the API server: default values (`pkg/apis/*/v1/defaults.go`), admission plugins that are on by
default (`pkg/kubeapiserver/options/plugins.go`), then what is done and dropped before validation
(`pkg/registry/*/*/strategy.go`). Everything is done by the objects that exist already; what these
cannot tell is named. An object that an API server has stored comes out as it was.

Validation is not done here, and names, UIDs, times and the status are left as they are: a manifest
may describe a cluster that runs.
"""

from scheduler.api.stored.existing import DECIDING, Existing, Nothing
from scheduler.api.stored.fillings import Fillings
from scheduler.api.stored.notes import Notes
from scheduler.api.stored.storing import (
    Stored,
    admit,
    as_stored,
    default,
    is_completed,
    was_stored,
)

__all__ = [
    "DECIDING",
    "Existing",
    "Fillings",
    "Notes",
    "Nothing",
    "Stored",
    "admit",
    "as_stored",
    "default",
    "is_completed",
    "was_stored",
]
