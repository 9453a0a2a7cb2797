/** A request for every operation of the server: what it needs, and what it is about. */
import type { Need } from "../../../packages/leasehold-server/src/http/auth/access.js";
import type { Request, Thing } from "./tenants.js";

export interface AccessExample {
  readonly needs: Need;
  /** What it names: a holder must have a prefix that is a beginning of it. Default: nothing. */
  readonly names?: "own/" | "once:own/" | "task:" | "";
  /**
   * thing: one that exists; another tenant's must look like one that does not. tenant: everything of
   * the caller's tenant, and nothing of others. Default `thing`.
   */
  readonly about?: "tenant";
  readonly request: (thing: Thing) => Promise<Omit<Request, "method" | "path"> & { path?: string }>;
}

/** What is collected reaches all tenants, so no less than a week. */
const WEEK_MS = 7 * 24 * 3_600_000;
const RESOURCE = "own/";
const nothing = async () => ({});

const tasks = (path: string): AccessExample => ({
  needs: "readTasks",
  names: "task:",
  about: "tenant",
  request: async (thing) => {
    await thing.pending();
    return { path };
  },
});
const lists = (path: string): AccessExample => ({
  needs: "readAll",
  names: "",
  about: "tenant",
  request: async (thing) => {
    await thing.lease();
    return { path };
  },
});
const reports = (operation: string, more: object = {}): AccessExample => ({
  needs: "work",
  names: "task:",
  request: async (thing) => {
    const { id, leaseId, token } = await thing.running();
    const body = { leaseId, fencingToken: token, ...more };
    return { path: `/api/tasks/${id}/${operation}`, body };
  },
});
const reportsMany = (more: object = {}): AccessExample => ({
  needs: "work",
  names: "task:",
  request: async (thing) => {
    const { id, leaseId, token } = await thing.running();
    return { body: [{ id, leaseId, fencingToken: token, ...more }] };
  },
});
/** The server asks operators with a key for a reason. */
const WHY = "reason=test";
const operates = (operation: string): AccessExample => ({
  needs: "operate",
  request: async (thing) => ({
    path: `/api/tasks/${(await thing.pending()).id}/${operation}?${WHY}`,
  }),
});
const operatesMany = (operation: string): AccessExample => ({
  needs: "operate",
  request: async (thing) => ({
    path: `/api/tasks/${operation}?${WHY}`,
    body: [(await thing.pending()).id],
  }),
});
const operator: AccessExample = { needs: "operate", about: "tenant", request: nothing };
const open: AccessExample = { needs: "public", about: "tenant", request: nothing };
const generator: AccessExample = { needs: "operate", about: "tenant", request: nothing };
const byLeaseId = (needs: Need): AccessExample => ({
  needs,
  names: RESOURCE,
  request: async (thing) => ({ body: { leaseId: (await thing.lease()).leaseId } }),
});
const manyByLeaseId = (more: object = {}): AccessExample => ({
  needs: "hold",
  names: RESOURCE,
  request: async (thing) => ({ body: [{ leaseId: (await thing.lease()).leaseId, ...more }] }),
});

export const ACCESS_EXAMPLES: Readonly<Record<string, AccessExample>> = {
  "GET /healthz": open,
  "GET /readyz": open,
  "GET /openapi.json": open,
  "GET /metrics": { needs: "scrape", about: "tenant", request: nothing },

  // This comes before the examples that claim tasks: it lists the queues that a worker has polled, and
  // those names may contain another tenant's mark.
  "GET /v1/workers": {
    ...lists("/v1/workers"),
    request: async (thing) => {
      await thing.running();
      await thing.lease();
      return {};
    },
  },

  "POST /api/tasks": {
    needs: "work",
    names: "task:",
    about: "tenant",
    request: async () => ({ body: { task_data: 1, queue: "added" } }),
  },
  "POST /api/tasks/next": {
    needs: "work",
    names: "task:",
    request: async (thing) => {
      const { queue } = await thing.pending();
      return { body: { processor: "asker", queues: [queue] } };
    },
  },
  "PUT /api/tasks/{id}/heartbeat": reports("heartbeat"),
  "PUT /api/tasks/{id}/complete": reports("complete"),
  "PUT /api/tasks/{id}/fail": reports("fail", { error: "no" }),
  "PUT /api/tasks/{id}/return": reports("return"),
  "POST /api/tasks/heartbeat": reportsMany(),
  "POST /api/tasks/complete": reportsMany(),
  "POST /api/tasks/fail": reportsMany({ error: "no" }),
  "POST /api/tasks/return": reportsMany(),
  "POST /api/tasks/{id}/cancel": operates("cancel"),
  "POST /api/tasks/{id}/retry": operates("retry"),
  "DELETE /api/tasks/{id}": {
    needs: "operate",
    request: async (thing) => ({ path: `/api/tasks/${(await thing.ended()).id}?${WHY}` }),
  },
  "POST /api/tasks/cancel": operatesMany("cancel"),
  "POST /api/tasks/retry": operatesMany("retry"),
  "POST /api/tasks/delete": {
    needs: "operate",
    request: async (thing) => ({
      path: `/api/tasks/delete?${WHY}`,
      body: [(await thing.ended()).id],
    }),
  },
  "POST /api/tasks/bulk": {
    needs: "operate",
    request: async (thing) => {
      const { queue } = await thing.pending();
      return { body: { operation: "cancel", filter: { queue }, reason: "test" } };
    },
  },
  "GET /api/tasks": tasks("/api/tasks?limit=5"),
  "GET /api/tasks/pending": tasks("/api/tasks/pending?limit=5"),
  "GET /api/tasks/started": tasks("/api/tasks/started?limit=5"),
  "GET /api/tasks/processed": tasks("/api/tasks/processed?limit=5"),
  "GET /api/tasks/dead": tasks("/api/tasks/dead?limit=5"),
  "GET /api/tasks/cancelled": tasks("/api/tasks/cancelled?limit=5"),
  "GET /api/tasks/expired": tasks("/api/tasks/expired?limit=5"),
  "GET /api/tasks/counts": tasks("/api/tasks/counts"),
  "GET /api/tasks/leases": {
    ...tasks("/api/tasks/leases?limit=5"),
    request: async (thing) => {
      await thing.running();
      return { path: "/api/tasks/leases?limit=5" };
    },
  },
  "GET /api/tasks/{id}": {
    needs: "readTasks",
    names: "task:",
    request: async (thing) => ({ path: `/api/tasks/${(await thing.running()).id}` }),
  },

  "GET /v1/tasks/stats": tasks("/v1/tasks/stats"),
  "GET /v1/tasks/keys": tasks("/v1/tasks/keys"),
  "GET /v1/tasks/limits": tasks("/v1/tasks/limits"),
  "PUT /v1/tasks/limits": {
    needs: "work",
    names: "task:",
    about: "tenant",
    request: async () => ({ body: { scope: "kind", name: "report", running: 5 } }),
  },
  "POST /v1/tasks/limits": {
    needs: "operate",
    request: async () => ({
      path: `/v1/tasks/limits?${WHY}`,
      body: { scope: "kind", name: "report", running: 5 },
    }),
  },
  "DELETE /v1/tasks/limits": {
    needs: "operate",
    request: async () => ({ path: `/v1/tasks/limits?scope=kind&name=report&${WHY}` }),
  },
  "POST /v1/tasks/results": {
    needs: "readTasks",
    names: "task:",
    request: async (thing) => ({ body: { ids: [(await thing.running()).id] } }),
  },
  "GET /v1/tasks/{id}/result": {
    needs: "readTasks",
    names: "task:",
    request: async (thing) => ({ path: `/v1/tasks/${(await thing.running()).id}/result` }),
  },
  "GET /api/tasks/{id}/why": {
    needs: "readTasks",
    names: "task:",
    request: async (thing) => ({ path: `/api/tasks/${(await thing.pending()).id}/why` }),
  },

  "GET /api/generator": {
    needs: "readTasks",
    names: "task:",
    about: "tenant",
    request: nothing,
  },
  "POST /api/generator/start": generator,
  "POST /api/generator/stop": generator,
  "PUT /api/generator/rate": {
    ...generator,
    request: async () => ({ body: { ratePerSecond: 2 } }),
  },

  "POST /api/leases": {
    needs: "hold",
    names: RESOURCE,
    about: "tenant",
    // Whatever others hold of this name: names are a tenant's own.
    request: async ({ resource }) => ({ body: { resource: `${resource}/new`, holder: "asker" } }),
  },
  "PUT /api/leases/renew": byLeaseId("hold"),
  "DELETE /api/leases/release": byLeaseId("hold"),
  "DELETE /api/leases/{id}": {
    needs: "hold",
    names: RESOURCE,
    request: async (thing) => {
      const { id, leaseId } = await thing.lease();
      return { path: `/api/leases/${id}`, body: { leaseId } };
    },
  },
  "GET /api/leases": lists("/api/leases?limit=5"),
  "GET /api/leases/active": lists("/api/leases/active?limit=5"),
  "GET /api/leases/expired": lists("/api/leases/expired?limit=5"),
  "GET /api/leases/renewed": lists("/api/leases/renewed?limit=5"),
  "GET /api/leases/released": lists("/api/leases/released?limit=5"),
  "GET /api/leases/revoked": lists("/api/leases/revoked?limit=5"),
  "GET /api/leases/{id}": {
    needs: "read",
    names: RESOURCE,
    request: async (thing) => ({ path: `/api/leases/${(await thing.lease()).id}` }),
  },

  "POST /v1/locks/acquire": {
    needs: "hold",
    names: RESOURCE,
    about: "tenant",
    request: async ({ resource }) => ({ body: { resource: `${resource}/new`, ownerId: "asker" } }),
  },
  "POST /v1/locks/force-unlock": {
    needs: "operate",
    request: async (thing) => {
      await thing.lease();
      return { body: { resource: thing.resource, reason: "test" } };
    },
  },
  "POST /v1/locks/{leaseId}/renew": {
    needs: "hold",
    names: RESOURCE,
    request: async (thing) => ({ path: `/v1/locks/${(await thing.lease()).leaseId}/renew` }),
  },
  "DELETE /v1/locks/{leaseId}": {
    needs: "hold",
    names: RESOURCE,
    request: async (thing) => ({ path: `/v1/locks/${(await thing.lease()).leaseId}` }),
  },
  "GET /v1/locks": {
    needs: "read",
    names: RESOURCE,
    about: "tenant",
    request: async (thing) => {
      await thing.lease();
      return { path: "/v1/locks?prefix=own/&limit=5" };
    },
  },
  "GET /v1/locks/{leaseId}": {
    needs: "read",
    names: RESOURCE,
    request: async (thing) => ({ path: `/v1/locks/${(await thing.lease()).leaseId}` }),
  },

  "POST /v1/leases/acquire": {
    needs: "hold",
    names: RESOURCE,
    about: "tenant",
    request: async (thing) => {
      const { leaseId } = await thing.lease();
      return { body: [{ leaseId, holder: "asker", ttlMs: 30_000 }] };
    },
  },
  "POST /v1/leases/renew": manyByLeaseId({ ttlMs: 30_000 }),
  "POST /v1/leases/release": manyByLeaseId(),
  "POST /v1/leases/revoke": {
    needs: "operate",
    request: async (thing) => {
      const { token } = await thing.lease();
      return { body: [{ resource: thing.resource, expectedToken: token, reason: "test" }] };
    },
  },
  "POST /v1/leases/get": {
    needs: "read",
    names: RESOURCE,
    request: async (thing) => {
      await thing.lease();
      return { body: [thing.resource] };
    },
  },
  "POST /v1/leases/collect": {
    needs: "administer",
    about: "tenant",
    request: async () => ({ body: { olderThanMs: WEEK_MS } }),
  },
  "GET /v1/leases": {
    needs: "read",
    names: RESOURCE,
    about: "tenant",
    request: async (thing) => {
      await thing.lease();
      return { path: "/v1/leases?prefix=own/&limit=5" };
    },
  },
  "GET /v1/capabilities": { needs: "read", about: "tenant", request: nothing },
  "GET /v1/events": { needs: "read", about: "tenant", request: nothing },

  "GET /v1/whoami": { needs: "read", about: "tenant", request: nothing },
  "GET /v1/overview": lists("/v1/overview?seconds=5"),
  "GET /v1/elections": lists("/v1/elections"),
  "GET /v1/activity": {
    needs: "read",
    about: "tenant",
    request: async (thing) => {
      await thing.lease();
      return { path: "/v1/activity?last=1000" };
    },
  },
  "GET /v1/refusals": {
    needs: "read",
    names: RESOURCE,
    about: "tenant",
    request: async (thing) => {
      await thing.lease();
      return { path: "/v1/refusals?prefix=own/" };
    },
  },
  "GET /v1/resource": {
    needs: "read",
    names: RESOURCE,
    request: async (thing) => {
      await thing.lease();
      return { path: `/v1/resource?name=${thing.resource}` };
    },
  },
  "POST /v1/leases/seen": {
    needs: "read",
    names: RESOURCE,
    request: async (thing) => {
      await thing.lease();
      return { body: [thing.resource] };
    },
  },

  "GET /v1/once": {
    needs: "read",
    names: "once:own/",
    about: "tenant",
    request: async (thing) => {
      await thing.once();
      return { path: "/v1/once?prefix=own/&limit=5" };
    },
  },
  "GET /v1/once/{key}": {
    needs: "read",
    names: "once:own/",
    request: async (thing) => ({ path: `/v1/once/${encodeURIComponent(await thing.once())}` }),
  },
  "POST /v1/once/succeed": {
    needs: "hold",
    names: "once:own/",
    request: async (thing) => ({ body: { ...(await thing.working()), value: 1 } }),
  },
  "POST /v1/once/fail": {
    needs: "hold",
    names: "once:own/",
    request: async (thing) => ({ body: { ...(await thing.working()), error: "no" } }),
  },
  "POST /v1/once/{key}/retry": {
    needs: "operate",
    request: async (thing) => ({
      path: `/v1/once/${encodeURIComponent(await thing.once())}/retry?${WHY}`,
    }),
  },
  "DELETE /v1/once/{key}": {
    needs: "operate",
    request: async (thing) => ({
      path: `/v1/once/${encodeURIComponent(await thing.once())}?${WHY}`,
    }),
  },

  "PUT /v1/schedules/{name}": {
    needs: "work",
    names: "task:",
    about: "tenant",
    request: async (thing) => ({
      path: `/v1/schedules/${await thing.schedule()}`,
      body: { everyMs: 3_600_000, task: { kind: "report", data: null } },
    }),
  },
  "GET /v1/schedules": {
    needs: "readTasks",
    names: "task:",
    about: "tenant",
    request: async (thing) => {
      await thing.schedule();
      return { path: "/v1/schedules?limit=5" };
    },
  },
  "GET /v1/schedules/{name}": {
    needs: "readTasks",
    names: "task:",
    request: async (thing) => ({ path: `/v1/schedules/${await thing.schedule()}` }),
  },
  "POST /v1/schedules/{name}/pause": {
    needs: "operate",
    request: async (thing) => ({ path: `/v1/schedules/${await thing.schedule()}/pause?${WHY}` }),
  },
  "POST /v1/schedules/{name}/resume": {
    needs: "operate",
    request: async (thing) => ({ path: `/v1/schedules/${await thing.schedule()}/resume?${WHY}` }),
  },
  "POST /v1/schedules/{name}/run": {
    needs: "operate",
    request: async (thing) => ({ path: `/v1/schedules/${await thing.schedule()}/run?${WHY}` }),
  },
  "DELETE /v1/schedules/{name}": {
    needs: "operate",
    request: async (thing) => ({ path: `/v1/schedules/${await thing.schedule()}?${WHY}` }),
  },

  "GET /v1/pauses": {
    needs: "read",
    about: "tenant",
    request: async (thing) => {
      await thing.pause();
      return {};
    },
  },
  "PUT /v1/pauses": {
    needs: "operate",
    about: "tenant",
    request: async ({ resource }) => ({ body: { kind: "queue", name: resource, reason: "test" } }),
  },
  "DELETE /v1/pauses": {
    needs: "operate",
    request: async (thing) => {
      await thing.pause();
      return { path: `/v1/pauses?kind=prefix&name=${thing.resource}&${WHY}` };
    },
  },
  "GET /v1/contention": { ...operator, needs: "readAll", names: "" },
  "GET /v1/audit": {
    ...operator,
    request: async (thing) => {
      await thing.key();
      return { path: "/v1/audit?limit=5" };
    },
  },
  "GET /v1/audit/verify": operator,

  "GET /v1/keys": {
    needs: "administer",
    about: "tenant",
    request: async (thing) => {
      await thing.key();
      return {};
    },
  },
  "POST /v1/keys": {
    needs: "administer",
    about: "tenant",
    request: async () => ({ body: { name: "new", role: "viewer" } }),
  },
  "POST /v1/keys/{id}/rotate": {
    needs: "administer",
    request: async (thing) => ({ path: `/v1/keys/${(await thing.key()).id}/rotate`, body: {} }),
  },
  "DELETE /v1/keys/{id}": {
    needs: "administer",
    request: async (thing) => ({ path: `/v1/keys/${(await thing.key()).id}?${WHY}` }),
  },
  "GET /v1/limits": { needs: "read", about: "tenant", request: nothing },
  "PUT /v1/limits": {
    needs: "administer",
    about: "tenant",
    request: async () => ({ body: { ratePerSecond: 1_000 } }),
  },
};
