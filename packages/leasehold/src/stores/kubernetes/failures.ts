/** Maps failures of the API server to outcomes: did the write take effect, and can a retry help? */

import { reasonOf } from "../../env/index.js";
import {
  LeaseholdError,
  refusedRequest,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../lease/index.js";
import { serverProblem } from "../../store-kit/connecting.js";

export type Verb = "get" | "list" | "watch" | "create" | "update";

/** The request, for the error message. */
export interface Asked {
  readonly verb: Verb;
  /** The Kubernetes namespace. */
  readonly namespace: string;
  /** The URL of the API server. */
  readonly server: string;
}

/** An error response. */
export interface Refusal {
  readonly status: number;
  /** The body, usually a Status object. */
  readonly body: unknown;
}

/** A failed read changed nothing. */
function writes(verb: Verb): boolean {
  return verb === "create" || verb === "update";
}

/** The caller handles version conflicts (409, 410) and missing objects. */
export function refusalError({ status, body }: Refusal, asked: Asked): LeaseholdError {
  const { verb, namespace, server } = asked;
  const { message = "" } = (body ?? {}) as { message?: string };
  const says = message === "" ? `Kubernetes answers ${status}` : `Kubernetes says: ${message}`;
  if (status === 401) {
    return new StoreMisconfiguredError(
      `${says}: the API server at ${server} rejected the credentials; renew those of the kubeconfig, or check the pod's service account`,
    );
  }
  if (status === 403) {
    return new StoreMisconfiguredError(
      `${says}; grant this user the verb "${verb}" on leases in the API group coordination.k8s.io in the namespace "${namespace}"`,
    );
  }
  if (status === 404 && verb === "create") {
    return new StoreMisconfiguredError(
      `${says}; create the namespace (kubectl create namespace ${namespace}), or correct the URL: kubernetes:NAMESPACE`,
    );
  }
  if (status === 413 || status === 422)
    return refusedRequest(says, "use smaller or other metadata");
  if (status === 429) return new StoreUnavailableError(says, { outcome: "none" });
  if (status >= 500) return unavailable(verb, says, true);
  return new StoreMisconfiguredError(
    `${says}: the API server at ${server} does not support Lease objects of coordination.k8s.io/v1 (status ${status})`,
  );
}

const AUTHORITY =
  "check its address and the cluster's certificate authority (certificate-authority of the kubeconfig, or ca.crt of the pod)";
/** @param sent whether the request may have reached the server */
export function connectionError(cause: unknown, sent: boolean, asked: Asked): LeaseholdError {
  if (cause instanceof LeaseholdError) return cause;
  const problem = serverProblem(cause, { authority: AUTHORITY });
  if (problem !== null) {
    return new StoreMisconfiguredError(`the API server at ${asked.server}: ${problem}`, cause);
  }
  return unavailable(asked.verb, `${asked.server}: ${reasonOf(cause)}`, sent, cause);
}

export function overdueError(leftMs: number, sent: boolean, { verb, server }: Asked) {
  return unavailable(verb, `${server}: no response within ${leftMs} ms`, sent);
}

function unavailable(verb: Verb, problem: string, sent: boolean, cause?: unknown) {
  const outcome = sent && writes(verb) ? "unknown" : "none";
  return new StoreUnavailableError(`Kubernetes failed: ${problem}`, { outcome, cause });
}
