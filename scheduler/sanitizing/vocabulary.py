"""Words of Kubernetes and of kubestow's own messages.

Redaction keeps these words of a message and replaces all others, so that nothing that a tenant can
name is kept unless it says nothing. They are the words of the reasons, messages and codes of the
in-tree plugins, the engine and the queue. A word that is missing here is replaced: the message
then reads worse, and nothing leaks.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KNOWN_WORDS: Final = _words(
    """
    A-Za-z absent Accept-Encoding access accommodate accounted ActionType active Add add adding
    AddNode AddPod admin admitted affinity affinity/selector after again ago ahead alias aliases
    All all allocatable allocate allocated allocation allow allowed alone alphanumeric already
    AlreadyQueuedError among amounts An an and annotation annotations announce another answer
    answered anti-affinity any anything API Api apiVersion ApiWriter app appears application
    apply
    applying apps architectures are args argument arguments arithmetic arrays as aside asked
    asks assigned AssignedPod assumed async asynchronous at attached Attempt attempt
    AttemptError AttemptOutcome attribute Auto
    Available available Awaitable Awaited AwaitingCriteria
    AWS aws aws-ebs azure-disk azure-file back backoff BackoffComplete basic be because before
    began begin begins begun behind being belong belongs below best BestEffort between big Bind
    bind bind-completed Binding binding bindingTimeout BindPlugin BindTimeoutSeconds
    bindTimeoutSeconds block blocks bool BoolColumn Both both bound bound-by-controller breaks
    budget budgets built BuiltInQuotaConflict but by bytes Cache cache call called camel can
    cancelled candidate candidates cannot capacity CEL certificate certificates chaining Change
    change ChangeBindMode changed changes character characters charged charges check checked
    Chosen chosen cinder claim claimed ClaimRef claimRef claims Class class client Clock clone
    closed cluster ClusterEvent ClusterEventWithHint Code code Codes codes collected collections
    column ColumnarFilterPlugin ColumnarScorePlugin Columns columns come comes compile complete
    completed compute condition conditions configuration ConfigurationError conflict consider
    considered consist constraint constraints consumer contain containers Content-Type context
    contradict
    controller conversion converted converting core cores CorrectValue could
    count counted counting counts CPU cpu create CreateClaim created CreateDeviceClass
    CreateResourceClaim CreateResourceClaimTemplate CreateStorageClass criteria CriteriaMet
    criterion CrossNamespacePodAffinity CSI csi CSIDriver csidrivers CSINode csinodes
    csistoragecapacities CSIStorageCapacity currently cycle cycles CycleState data date deadline
    deallocate deallocated deallocation DebugPage decide Decision DecisionList DecisionResult
    decisions DeclareFeature declares deduced def default DefaultBinder defaultConstraints
    defaultingType DefaultPreemption defaultWeights Deferred deferred deferred-keys DeferredKeys
    DeferredQuotaInvalidKey DeferredQuotaOvercommitted define Delete delete deleted deletion
    dense depends derived detail device device's DeviceClass deviceclasses
    deviceclasses.resource.k8s.io devices DeviceTaintRules did didn differ different differs
    directory disabled disk disks DisruptionTarget distinct distribution DNS do does doesn
    domain domains done DoNotSchedule DRAConsumableCapacity DRAPrioritizedList drift driver
    DropHostPort DropMinDomains DropNodeAffinity DropNodeSelector dropped DropPodAffinity
    DropPodAntiAffinity DropVolume dT due Duplicate dynamic DynamicResources each earlier Ei
    either eligible else elsewhere empty enable encountered end ended enforced Engine enough
    EnqueueExtensions entries entry environment ephemeral ephemeral-storage equal Error error
    evaluated Evaluator even event EventFeatures EventResource Events events every everything
    Evicted evicted Evicting eviction evictions EvictPods evicts Examination examples exceed
    exceeded exceeds exist existing ExistingPodTerm exists expected expensive explain Explainer
    ExplainingPlugin ExplainPage explanation expression extended Extender extender extenders
    extension ExtensionPoint Failed failed FailedAndUnresolvableNodes FailedNodes
    FailedScheduling failing Failure failure failures fairness fallback fallbackCriteria
    FallbackPodTopologySpread fallbackStrategy falls False false fault feature features few
    fewer field fields file files Filesystem Filter filter filtered FilterPlugin filters
    filterTimeout finalizer find finish finished first fit FitError fits flag flight floor flush
    followed for Forbidden ForceActivate form format found Framework framework free FreeHostPort
    from further gang GangScheduling gate gated gates gating gave gce-pd generator get gets Gi
    give given gives go goes gone got greater group groups Gt guarding had handed Handle handle
    happen happens hard hardPodAffinityWeight has have head heap heaps held help helpful here
    higher highest hint HintFunction HintKeys hold HoldAfter holdAfter HoldingPlugin holds Honor
    Host host hostname how http https hugepages hugepages-SIZE hypothetical identity ids If if
    ignored ignoredResourceGroups ignoredResources ImageLocality images ImageState immediate
    imported In in in-flight in-tree in-use incoming increasing index indexed indexes IndexPage
    indices Ineligible inf Infeasible init initializing inline input insecure installed instead
    Insufficient insufficient integers internals InterPodAffinity into Invalid invalid
    InvalidAnnotation InvalidTopologySpreadFallback is It it items its itself JSON json just
    keeps
    kept KeptInfo key keys Ki kind kinds know known knows kubectl KubeletRejections kubestow
    kubestow.cycleTimeBudget Kueue label LabelNode labels labelSelector LabelValues lacks
    largest last lastSeq lately later latest layout lead leading least LeastAllocated leaves
    left less let Let lets like limit limited limits List list listener Lister Listers log long
    longer looked looking loses Lost lower LowerRequest lowest Lt make makes malformed many
    ManyEvents mapping mappings mark match matches MatchLabelKeysInPodTopologySpread matter max
    maxHold maxSkew may mean meantime MeetDemand member members Memory memory message metadata
    method metrics Mi might migrated migrated-plugins millis minCandidateNodesAbsolute
    minCandidateNodesPercentage minDomains minimum minMember minResources misnumbered missing
    mode module moment monotonic more MoreOnNode most MostAllocated moved ms msgspec much
    Multiarch must MyValue NAME name named names NAMESPACE namespace namespaces Native native
    need needed needs negative neither Never never NeverGated new new-node next nil No no
    no-attempt no-provisioner NoArgs nobody Node node NodeAffinity NodeCheck
    NodeDeclaredFeatures NodeFill NodeInfo NodeList NodeName NodeNames NodeNameToMetaVictims
    NodeOverlay NodePage NodePorts NodeProvisioningFailed NodeProvisioningInProgress
    nodeProvisioningTimeout NodeReport NodeResourcesBalancedAllocation NodeResourcesFit NodeRow
    Nodes nodes NodeScore nodeSelectorTerms NodeTable NodeTableView NodeToAdd NodeToStatus
    NodeUnschedulable NodeVolumeLimits NoExecute Nominated nominated nominatedNodeName
    NominatingInfo nomination Nominator nominator non-existent None none NoPlugin nor Normal
    normal normalises Normalize normalize NormalizeScorePlugin normalizing NoSchedule not
    not-ours NotBestEffort note Nothing nothing noticeable NotRemembered NotRun NotTerminating
    now NUMA Number number numeric NumPDBViolations object ObjectKey obtaining of Off off offers
    older on Once once one only open Operator optional or order orders ordinary orValue other
    others ours out over overcommitted overlay overlays Own own owner owners packed PageList
    parent parse parsing part parts pass passes past patch path pause pending pendingBy per
    periodic Permission permissions Permit permit PermitPlugin permitted persistent
    PersistentVolume persistentvolume PersistentVolumeClaim persistentvolumeclaim
    PersistentVolumeClaims persistentvolumeclaims persistentvolumes Pi picked picks place placed
    Placement placement placements placing platlib Plugin plugin plugin-dir PluginError
    PluginFactory PluginMetrics plugins PluginScore plurals Pod pod PodConditionsPlugin
    poddisruptionbudgets PodExplanation PodGroup PodGroupPodsCount PodGroups PodName
    PodNamespace PodOnNode PodPopped Pods pods PodScheduled PodState PodTerm PodTopologySpread
    PodTopologySpreadFallbackMode PodUID PodView point points pool pools PopFromBackoffQ popped
    ports portworx-volume positive POST PostBind postBind PostBindPlugin PostFilter postFilter
    postfilter PostFilterOutcome PostFilterPlugin PostFilterResult potential PotentialVictims
    power PreBind preBind prebind PreBindPlugin PreBindPreFlight PreBindPreFlightResult
    precondition preempt Preempted preempted Preempting preempting Preemption preemption
    PreemptionByScheduler PreemptionFailed PreemptionFilterPlugin preemptionPolicy PreEnqueue
    preEnqueue PreEnqueuePlugin PreFilter preFilter prefilter PreFilterExtensions
    PreFilterInterPodAffinity PreFilterPlugin PreFilterPodTopologySpread PreFilterResult prefix
    PreScore preScore prescore PreScoreInterPodAffinity PreScorePlugin PreScorePodTopologySpread
    present priority PriorityClass PriorityClasses PrioritySort probing process profile profiles
    ProfilesReplaced projects proof provisioned provisioner provisioners provisioning proxy
    Proxy-Authorization
    publishing purelib put pv PVC pvc py Python qualname quantity question Queue queue queued
    QueuedPodInfo QueueingHint QueueInvariantError QueueList QueueNominator QueueOptions
    QueuePage QueueProfiles QueueSkip QueueSort queueSort QueueSortPlugin QueueState
    QueueStatistics quick Quota quota quota-deferred QuotaDeferred quotaMode quotas raise raised
    RaiseMaxSkew RaiseQuota RaiseVolumeLimit random range Rates read reads ReadWriteOncePod
    reason reasons recently Recheck rechecking Reduce refers refuses regex region regions
    registered Registry reject rejected rejectedBy RejectedNodes rejecting Rejection rejection
    RejectionCount rejections Relax relax RelaxedPodTopologySpread RelaxingPlugin released
    Remedies Remedy RemedySearch remembered rememberedPods remembering remove removed RemovePod
    removes RemoveTaint removing rename repeat Replace ReplaceClaim replaced ReplicaSet
    replicasets ReplicationController replicationcontrollers representable represented request
    requested RequestedToCapacityRatio requestedToCapacityRatio requests RequeueAfter
    requeueAfter Required required requirements requires reservation reservations Reserve
    reserve reserved ReservePlugin reserving reset resize resource ResourceClaim resourceClaim
    resourceclaim resourceclaims ResourceQuota resourcequota ResourceQuotaDeferredEnforcement
    ResourceQuotaExceeded resourcequotas ResourceQuotaValidated ResourceRoom resources
    ResourceSlice ResourceUse resourceVersion responds response result retrieve retry return
    returned returns reuse ReuseRule right room root rounding row Rows rows rules running runs
    runtime same sample satisfied satisfy says scalars schedulable schedule ScheduleAnyway
    ScheduleAttemptFailure Scheduled scheduled scheduler scheduler-enforced
    SchedulerAsyncPreemption SchedulerError ScheduleResult schedulerName schedulerNames
    schedulers Scheduling scheduling scheduling.k8s.io scheduling.x-k8s.io SchedulingAlgorithm
    SchedulingGated SchedulingGates SchedulingQueue Score score scored ScorePlugin scores
    scoring ScoringStrategy scoringStrategy search second seconds see selected selected-node
    selectedNode selector selectors sent Sequence sequence serve server serves services set
    SetSchedulerName settle several shape share Shared shared short should show shown shows
    signatures
    simultaneously since size skew SKIP Skip skipped slack slice slow so soft some something
    sorted sorting sorts source sparse spec spec.minMember spec.minResources
    spec.parentCompositePodGroupName spec.priority spec.resourceClaim spec.schedulingGroup
    spec.schedulingPolicy specified specifying spent spread SpreadAnyway stable stamps stands
    start started starts starve starving state StatefulSet statefulsets StateNotFoundError
    states Status status statuses stays Step step still stopped stops stopwatch storage
    storage-class StorageCapacityScoring StorageClass storageClass storageclass.storage.k8s.io
    storageclasses stored strict StrictFirst string Struct sub-queue sub-queues subdomain
    subrequest subrequests Subscriptions Succeeded succeeded Success success Successfully such
    sum Summary SummaryPage sums supported supports supposed suppressed surrogatepass suspended
    switched synchronous System SZ table TableWithoutVictims taint tainted taints
    TaintToleration TaintTolerationComparisonOperators taken takes TargetPod telling template
    templates ten term Terminating terminating TermKind terms text than that The the their them
    then there these they this those thousandths Ti Tick ties Time time timed TimedWork timeout
    timers times TLS to together TolerateTaint tolerations Too too took topology
    topology-spread-fallback topology-spread-fallback-applied topologyKey
    TopologyPlacementGenerator topologySpreadConstraints TopologySpreadFallback total totals
    towards tracked translates treated TrialDecision TrialDecisions tried True true try trying
    Tuning tuple turn twice two type UID uid unavailable unbound UncordonNode under undo
    unexpected Ungate Unknown unknown Unreserve unreserve unresolvable Unschedulable
    unschedulable UnschedulableReason UnschedulableTimeout UnscheduledPod Unsupported
    unsupported until untolerated unusual up Update update updated UpdateNodeAllocatable
    UpdateNodeAnnotation UpdateNodeCondition UpdateNodeDeclaredFeature UpdateNodeLabel
    UpdateNodeTaint UpdatePodAnnotation UpdatePodGeneratedResourceClaim UpdatePodLabel
    UpdatePodScaleDown UpdatePodSchedulingGatesEliminated UpdatePodSchedulingStatus
    UpdatePodToleration URL urlPrefix urls usage Use use used uses using utilization valid
    validation value values vanished verbs version victim victims victimSchedulers vol volume
    VolumeAttachment volumeattachments VolumeBinding VolumeBindingMode VolumeLimitScaling
    VolumeRestrictions volumes VolumeZone vsphere-volume wait waited WaitForFirstConsumer
    waiting waiting-at-permit WaitingPod WaitingPods waits wake want wants Warning was watch
    watched way weight well went were what what-ifs WhatIf WhatIfQuestion WhatIfResult when
    whenUnsatisfiable where whether which while whole whose Why why will with within without
    words work Workload workload workloads would write wrong wrongly yes yet yield you your zero
    zone zones
    """
)

OMITTED: Final = "…"
"""Stands for any word that is not known, whether or not it is the name of something."""

_WORD: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?|[^\x00-\x7f]+")
_NUMBER: Final = re.compile(r"\d{1,12}(?:\.\d{1,9})?(?:[munkKMGTPE]i?|%|ms|s|h)?")


def known_words_only(text: str, own: Container[str]) -> str:
    """Return a text without words that are neither ours, nor numbers, nor in `own`.

    What is left does not depend on which names exist.

    >>> known_words_only("0/3 nodes: 1 taint {team: pay}, 2 Insufficient x.io/gpu", {"x.io/gpu"})
    '0/3 nodes: 1 taint {…: …}, 2 Insufficient x.io/gpu'
    """

    def known(word: str) -> bool:
        plain = (len(word) == 1 and word.isascii()) or word in KNOWN_WORDS or word in own
        return plain or _NUMBER.fullmatch(word) is not None

    def shown(found: re.Match[str]) -> str:
        word = found.group()
        if known(word):
            return word
        return word if "/" in word and all(map(known, word.split("/"))) else OMITTED

    return _WORD.sub(shown, text)
