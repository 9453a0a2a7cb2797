/** Maps failures of Consul to outcomes: did the request take effect, and can a retry help? */

import {
  asStoreError,
  ClosedError,
  failedOutcome,
  type LeaseholdError,
  refusedRequest,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "../../lease/index.js";
import { connectionReason, serverProblem, wasNotSent } from "../../store-kit/connecting.js";

export { failedOutcome };

/** Remedies for permanent failures, by a part of Consul's message. Nothing was applied. */
const MISCONFIGURED: readonly (readonly [text: string, remedy: string])[] = [
  ["ACL not found", "check ?token= of the URL or CONSUL_HTTP_TOKEN"],
  ["Permission denied", "give the token the policy of stores/consul/README.md"],
  ["No path to datacenter", "check ?dc= of the URL"],
  ["Invalid Session TTL", "raise ?sessionTtlMs, or lower session_ttl_min of Consul"],
];

/** Messages of requests that Consul rejected before doing anything; a retry may succeed. */
const REFUSED = [
  "No cluster leader",
  "failed to get conn",
  "rate limit",
  "Too many",
  "not ready to serve",
  // An operator has removed the node of the sessions since it was registered.
  "Missing node registration",
];

/** @param status of HTTP, which is none of those that the caller expects @param text the body */
export function answeredFailure(status: number, text: string, origin: string): LeaseholdError {
  const said = text.trim().slice(0, 300) || `status ${status}`;
  const message = `Consul at ${origin} says: ${said}`;
  const remedy = MISCONFIGURED.find(([part]) => said.includes(part))?.[1];
  if (remedy) return new StoreMisconfiguredError(`${message}; ${remedy}`);
  if (status === 413 || said.includes("too large")) {
    return refusedRequest(message, "raise txn_max_req_len of Consul, or use smaller metadata");
  }
  if (status === 429 || REFUSED.some((part) => said.includes(part))) {
    return new StoreUnavailableError(message, { outcome: "none" });
  }
  if (status === 403 || (status >= 400 && status < 500)) {
    return new StoreMisconfiguredError(
      `${message} (status ${status}): is this the HTTP address of Consul 1.7 or later?`,
    );
  }
  // The leader may have changed while it committed: the request may still be applied.
  return new StoreUnavailableError(message, { outcome: "unknown" });
}

/** @throws LeaseholdError if the text is not JSON, as another kind of server answers */
export function parsed<T>(text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    throw answeredFailure(404, "no JSON", "the URL");
  }
}

export function connectionFailure(cause: unknown, origin: string): LeaseholdError {
  const problem = serverProblem(cause);
  if (problem !== null) return new StoreMisconfiguredError(`${origin}: ${problem}`, cause);
  return new StoreUnavailableError(`Consul failed: ${connectionReason(origin, cause)}`, {
    outcome: wasNotSent(cause) ? "none" : "unknown",
    cause,
  });
}

export function closed(): ClosedError {
  return new ClosedError("the Consul lease store");
}

/** @throws LeaseholdError */
export async function withStoreErrors<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw asStoreError(error, "maybe");
  }
}
