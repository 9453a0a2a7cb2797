/** What holders say to a server, one request at a time, so that a test decides when they renew or come late. */
import { newLeaseId, systemRandom } from "../../../packages/leasehold/src/env/index.js";
import { toWireLeaseId } from "../../../packages/leasehold/src/wire/index.js";

export interface Outcome {
  readonly status: string;
  readonly token?: number;
  readonly reason?: string;
}

interface Wish {
  readonly ttlMs?: number;
  readonly queueMs?: number;
  readonly metadata?: string;
}

const TTL_MS = 600_000;

/** @param url of the server, or of the app below its base path */
export function leaseCalls(url: string) {
  const call = async (operation: string, request: object): Promise<Outcome> => {
    const response = await fetch(`${url}/v1/leases/${operation}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify([request]),
    });
    const answer = (await response.json()) as Outcome[];
    if (!response.ok || !answer[0]) throw new Error(`${operation}: ${JSON.stringify(answer)}`);
    return answer[0];
  };
  return {
    call,
    /** Asks for it, under a lease id of its own. */
    async take(resource: string, holder: string, wish: Wish = {}) {
      const leaseId = toWireLeaseId(resource, newLeaseId(systemRandom));
      const outcome = await call("acquire", { leaseId, holder, ttlMs: TTL_MS, ...wish });
      return {
        ...outcome,
        renew: (ttlMs = TTL_MS) => call("renew", { leaseId, ttlMs }),
        release: () => call("release", { leaseId }),
      };
    },
    revoke: (resource: string, reason: string) => call("revoke", { resource, reason, free: "now" }),
  };
}
