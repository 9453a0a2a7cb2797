/** A server app on stores in memory whose clock a test moves, as a console asks it. */
import { expect, onTestFinished } from "vitest";
import { grantIdOf, newLeaseId, systemRandom } from "../../../packages/leasehold/src/env/index.js";
import { LeaseClient } from "../../../packages/leasehold/src/lease/index.js";
import { manualEnv } from "../../../packages/leasehold/src/testing/index.js";
import { toWireLeaseId } from "../../../packages/leasehold/src/wire/index.js";
import type { AppOptions } from "../../../packages/leasehold-server/src/http/index.js";
import { openApp } from "../server/app.js";

/** As openConsoleApp(), and closed when the test that opens it has finished. */
export async function openTestConsoleApp(options: Partial<AppOptions> = {}) {
  const app = await openConsoleApp(options);
  onTestFinished(() => app.close());
  return app;
}

async function openConsoleApp(options: Partial<AppOptions> = {}) {
  const env = manualEnv();
  const app = await openApp({ ...options, env });
  const asked = async (method: string, path: string, body?: unknown) => {
    const answer = await app.ask(method, path, body);
    expect(answer.status, `${method} ${path}: ${JSON.stringify(answer.body)}`).toBeLessThan(300);
    return answer.body;
  };
  return {
    ...app,
    clock: env.clock,
    asked,
    get: (path: string) => asked("GET", path),
    /** One request to the port's routes, and its outcome. */
    async call(operation: string, request: object) {
      const [outcome] = await asked("POST", `/v1/leases/${operation}`, [request]);
      return outcome;
    },
    grant(resource: string) {
      const leaseId = newLeaseId(systemRandom);
      return { leaseId: toWireLeaseId(resource, leaseId), grantId: grantIdOf(leaseId) };
    },
    client: (holder: string) =>
      new LeaseClient(app.stores.leases, { env, holder }, { close: undefined }),
    /** Reads /v1/activity in the background until it is left. */
    follow(query = "", lastEventId?: string) {
      const leaving = new AbortController();
      const state = { text: "", ended: false };
      void (async () => {
        const headers = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
        const request = new Request(`http://localhost/v1/activity${query}`, { headers });
        const { body } = await app.app.fetch(request);
        const reader = (body as ReadableStream<Uint8Array>).getReader();
        leaving.signal.addEventListener("abort", () => void reader.cancel());
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          state.text += new TextDecoder().decode(value);
        }
        state.ended = true;
      })();
      return {
        state,
        leave: () => leaving.abort(),
        /** What has come so far. */
        events: () =>
          [...state.text.matchAll(/^id: (.*)\nevent: (.*)\ndata: (.*)\n\n/gm)].map(
            ([, id = "", name = "", data = ""]) => ({ id, name, ...JSON.parse(data) }),
          ),
      };
    },
  };
}
