/**
 * How urgent a request is, by the route that will serve it. The router decides, so a path that it does not serve,
 * in whatever spelling, is never urgent.
 */

import { routeIn } from "../auth/access.js";
import type { App } from "../routing.js";

/**
 * keeps: always served, because it keeps or ends what is held, or helps to end an overload. waits: served up to the
 * tenant's limit. demands: served while the instance is not overloaded.
 */
export type Urgency = "keeps" | "waits" | "demands";

/** All other routes demand. @internal */
export const URGENT: Readonly<Record<string, Urgency>> = {
  "GET /healthz": "keeps",
  "GET /metrics": "keeps",

  "PUT /api/tasks/{id}/heartbeat": "keeps",
  "PUT /api/tasks/{id}/complete": "keeps",
  "PUT /api/tasks/{id}/fail": "keeps",
  "PUT /api/tasks/{id}/return": "keeps",
  "POST /api/tasks/heartbeat": "keeps",
  "POST /api/tasks/complete": "keeps",
  "POST /api/tasks/fail": "keeps",
  "POST /api/tasks/return": "keeps",
  "POST /api/tasks/next": "waits",

  "PUT /api/leases/renew": "keeps",
  "DELETE /api/leases/release": "keeps",
  "DELETE /api/leases/{id}": "keeps",

  "POST /v1/locks/{leaseId}/renew": "keeps",
  "DELETE /v1/locks/{leaseId}": "keeps",
  "POST /v1/locks/force-unlock": "keeps",

  "POST /v1/leases/renew": "keeps",
  "POST /v1/leases/release": "keeps",
  "POST /v1/leases/revoke": "keeps",

  "POST /v1/once/succeed": "keeps",
  "POST /v1/once/fail": "keeps",

  "PUT /v1/pauses": "keeps",
  "DELETE /v1/pauses": "keeps",

  "GET /v1/events": "waits",
  "GET /v1/tasks/{id}/result": "waits",
  "GET /v1/activity": "waits",
};

/** Request targets that node's adapter does not change: without escapes and dot segments. */
const PLAIN = /^\/(?!\.\.?(\/|\?|$))([!$&-.0-;=?-[\]_a-z~]|\/(?!\.\.?(\/|\?|$)))*$/i;

export function urgencyOfRoute(route: string | null): Urgency {
  return (route === null ? undefined : URGENT[route]) ?? "demands";
}

export class Urgencies {
  readonly #app: App;

  /** @param app with all its routes */
  constructor(app: App) {
    this.#app = app;
  }

  of({ method, url }: Pick<Request, "method" | "url">): Urgency {
    const path = this.#app.getPath({ url } as Request);
    // The routes of GET serve HEAD too.
    const [matches] = this.#app.router.match(method === "HEAD" ? "GET" : method, path);
    return urgencyOfRoute(routeIn(matches.map(([[, route]]) => route)));
  }

  /**
   * The same for a request of which only the head is known. It parses a URL only if the target needs it.
   * @param target as in the request: it begins with the path, or is absolute
   */
  ofHead(method: string, target: string): Urgency {
    const url = target.startsWith("/") ? `http://host${target}` : target;
    if (PLAIN.test(target)) return this.of({ method, url });
    return URL.canParse(url) ? this.of({ method, url: new URL(url).href }) : "demands";
  }
}
