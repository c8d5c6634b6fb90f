// What to do next where there is nothing to show.

import { html } from "./html.js";

const TRY = `kubectl run hello --image=registry.k8s.io/pause:3.10 --overrides='{"spec": {"schedulerName": "kubestow"}}'`;

/** No pod waits: that is well, or nobody uses the scheduler yet. */
export const NothingYet = ({ namespace }) => html`<p class="empty">${namespace ? "No pod of this namespace waits." : "Every pod that names this scheduler has a node."}</p>`;

/** No pod was ever seen: how the first one gets here. */
export const FirstPod = () => html`<section class="panel" aria-labelledby="first">
  <h2 id="first">Schedule a first pod</h2>
  <p>No pod has asked for this scheduler yet. A pod does with <code>schedulerName: kubestow</code> in its <code>spec</code>, or another profile of your configuration:</p>
  <pre tabindex="0"><code>${TRY}</code></pre>
  <p>This page shows it within seconds.</p>
</section>`;

/** The cluster has no node. */
export const NoNodes = () => html`<section class="panel" aria-labelledby="nonodes">
  <h2 id="nonodes">There are no nodes</h2>
  <p>The API server has no node that the scheduler may see, so every pod waits. See whether there are any:</p>
  <pre tabindex="0"><code>kubectl get nodes</code></pre>
  <p>If there are, the scheduler lacks the right to list them: apply its manifests again.</p>
</section>`;
