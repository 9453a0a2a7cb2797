/** What a failure of the API server means to a caller: did the write take effect, is a retry of use? */
import {
  LeaseholdError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../core/index.js";

export type Verb = "get" | "list" | "watch" | "create" | "update";

/** What was asked, for the sentence that says why it failed. */
export interface Asked {
  readonly verb: Verb;
  /** Of Kubernetes. */
  readonly namespace: string;
  /** Of the API server. */
  readonly server: string;
}

/** An answer that is an error. */
export interface Refusal {
  readonly status: number;
  /** The body, a Status object as a rule. */
  readonly body: unknown;
}

/** A failed read has changed nothing. */
function writes(verb: Verb): boolean {
  return verb === "create" || verb === "update";
}

/** Versions that do not agree (409, 410) are the caller's to look at, and so is what is not there. */
export function refusalError({ status, body }: Refusal, asked: Asked): LeaseholdError {
  const { verb, namespace, server } = asked;
  const { message = "" } = (body ?? {}) as { message?: string };
  const says = message === "" ? `Kubernetes answers ${status}` : `Kubernetes says: ${message}`;
  if (status === 401) {
    return new StoreMisconfiguredError(
      `${says}: the API server at ${server} does not know us; renew the credentials of the kubeconfig, or look at the pod's service account`,
    );
  }
  if (status === 403) {
    return new StoreMisconfiguredError(
      `${says}; grant us the verb "${verb}" on leases in the API group coordination.k8s.io in the namespace "${namespace}"`,
    );
  }
  if (status === 404 && verb === "create") {
    return new StoreMisconfiguredError(
      `${says}; create the namespace (kubectl create namespace ${namespace}), or correct the URL: kubernetes:NAMESPACE`,
    );
  }
  if (status === 429) return new StoreUnavailableError(says, { outcome: "none" });
  if (status >= 500) return unavailable(verb, says, true);
  return new StoreMisconfiguredError(
    `${says}: the API server at ${server} cannot work with Lease objects of coordination.k8s.io/v1 (status ${status})`,
  );
}

/** Codes of Node for certificates that do not fit, and servers that speak no TLS. */
const TLS = /^(CERT_|ERR_TLS_|ERR_SSL_|EPROTO$|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;

/** @param sent whether the request may have reached the server */
export function connectionError(cause: unknown, sent: boolean, asked: Asked): LeaseholdError {
  if (cause instanceof LeaseholdError) return cause;
  const { code = "", message } = cause as { code?: string; message: string };
  if (TLS.test(code)) {
    return new StoreMisconfiguredError(
      `no secure connection to the API server at ${asked.server}: ${message}; look at its address and at the certificate authority of the cluster`,
      cause,
    );
  }
  // Of several addresses none answered: such an error has no message.
  return unavailable(asked.verb, `${asked.server}: ${message || code}`, sent, cause);
}

export function overdueError(leftMs: number, sent: boolean, { verb, server }: Asked) {
  return unavailable(verb, `${server}: no answer within ${leftMs} ms`, sent);
}

function unavailable(verb: Verb, problem: string, sent: boolean, cause?: unknown) {
  const outcome = sent && writes(verb) ? "unknown" : "none";
  return new StoreUnavailableError(`Kubernetes failed: ${problem}`, { outcome, cause });
}
