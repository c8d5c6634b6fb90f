"""Records of the debug pages, in JSON: what a running scheduler answers, and what commands read.

The core fills them, the service serves them under `/debug/`, and the command line decodes and
prints them. They import the standard library and msgspec only: a command that asks one question
starts in the time that NumPy alone would take to load. Their field names are the JSON keys, times
are wall clock seconds, and values of enumerations are stable codes.
"""

from scheduler.explain.records.decision import (
    Decision,
    DecisionList,
    DecisionResult,
    RejectionCount,
)
from scheduler.explain.records.explain_page import ExplainPage, NotRemembered
from scheduler.explain.records.explanation import (
    Awaited,
    Examination,
    NodeCheck,
    NodeReport,
    PodExplanation,
    PodState,
    Rejection,
    ResourceRoom,
)
from scheduler.explain.records.gangs import (
    GroupAttempt,
    GroupDomain,
    GroupDomains,
    GroupExplanation,
    GroupList,
    GroupMembers,
    GroupPage,
    GroupPlan,
    GroupResource,
    GroupRoom,
    GroupRules,
    GroupTemplate,
    GroupView,
    NextGroupAttempt,
)
from scheduler.explain.records.nodes import NodeList, NodePage, NodeRow, PodOnNode
from scheduler.explain.records.owner_page import OwnerGroup, OwnerPage
from scheduler.explain.records.page import API_VERSION, DebugPage, IndexPage, internals
from scheduler.explain.records.queue import (
    BindingView,
    PodView,
    QueuePage,
    QueueState,
    QueueStatistics,
)
from scheduler.explain.records.remedies import Change, Code, Remedies, Remedy, RemedySearch, Step
from scheduler.explain.records.scores import NodeScore, PluginScore
from scheduler.explain.records.summary import (
    Moment,
    NodeFill,
    Placement,
    Rates,
    ResourceUse,
    SummaryPage,
)
from scheduler.explain.records.waiting import (
    OtherScheduler,
    WaitingCause,
    WaitingGroup,
    WaitingPage,
    WaitingPod,
)
from scheduler.explain.records.what_if import NodeToAdd, WhatIfQuestion, WhatIfResult

__all__ = [
    "API_VERSION",
    "Awaited",
    "BindingView",
    "Change",
    "Code",
    "DebugPage",
    "Decision",
    "DecisionList",
    "DecisionResult",
    "Examination",
    "ExplainPage",
    "GroupAttempt",
    "GroupDomain",
    "GroupDomains",
    "GroupExplanation",
    "GroupList",
    "GroupMembers",
    "GroupPage",
    "GroupPlan",
    "GroupResource",
    "GroupRoom",
    "GroupRules",
    "GroupTemplate",
    "GroupView",
    "IndexPage",
    "Moment",
    "NextGroupAttempt",
    "NodeCheck",
    "NodeFill",
    "NodeList",
    "NodePage",
    "NodeReport",
    "NodeRow",
    "NodeScore",
    "NodeToAdd",
    "NotRemembered",
    "OtherScheduler",
    "OwnerGroup",
    "OwnerPage",
    "Placement",
    "PluginScore",
    "PodExplanation",
    "PodOnNode",
    "PodState",
    "PodView",
    "QueuePage",
    "QueueState",
    "QueueStatistics",
    "Rates",
    "Rejection",
    "RejectionCount",
    "Remedies",
    "Remedy",
    "RemedySearch",
    "ResourceRoom",
    "ResourceUse",
    "Step",
    "SummaryPage",
    "WaitingCause",
    "WaitingGroup",
    "WaitingPage",
    "WaitingPod",
    "WhatIfQuestion",
    "WhatIfResult",
    "internals",
]
