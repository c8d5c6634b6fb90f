"""The configuration of kubestow: reading, defaults, checks, feature gates, printing.

`load_configuration` turns text into a `Configuration`. Everything of upstream's
kubescheduler.config.k8s.io/v1 is read strictly; our own process-wide options stand under the
extra key `kubestow`. This package opens no files and imports no plugins: the caller hands in
text, registry and the list of default plugins.
"""

from config.defaults import DEFAULT_NAMESPACE
from config.differences import Difference, differences, redacted_differences
from config.feature_gates import GATES, OWN_GATES, FeatureGates, Stage
from config.loading import Configuration, ResolvedProfile, load_configuration
from config.output import configz, to_data, to_yaml, upstream_form
from config.restarts import RELOADABLE, needing_restart
from config.schema import configuration_schema
from config.tracing import MILLION, tracing_url
from config.types import (
    API_VERSION,
    KIND,
    ClientConnectionConfiguration,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    KubestowConfiguration,
    LeaderElectionConfiguration,
    NodeProvisioningBridgeConfiguration,
    TracingConfiguration,
)

__all__ = [
    "API_VERSION",
    "DEFAULT_NAMESPACE",
    "GATES",
    "KIND",
    "MILLION",
    "OWN_GATES",
    "RELOADABLE",
    "ClientConnectionConfiguration",
    "Configuration",
    "Difference",
    "Extender",
    "ExtenderManagedResource",
    "ExtenderTLSConfig",
    "FeatureGates",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "KubestowConfiguration",
    "LeaderElectionConfiguration",
    "NodeProvisioningBridgeConfiguration",
    "ResolvedProfile",
    "Stage",
    "TracingConfiguration",
    "configuration_schema",
    "configz",
    "differences",
    "load_configuration",
    "needing_restart",
    "redacted_differences",
    "to_data",
    "to_yaml",
    "tracing_url",
    "upstream_form",
]
