/**
 * How urgent a request is, by the route that will serve it. The router decides, so a path that it does not serve,
 * in whatever spelling, is never urgent.
 */

import { type RouteRules, routeIn, type Urgency } from "./route-rules.js";
import type { App } from "./routing.js";

/** Request targets that node's adapter does not change: without escapes and dot segments. */
const PLAIN = /^\/(?!\.\.?(\/|\?|$))([!$&-.0-;=?-[\]_a-z~]|\/(?!\.\.?(\/|\?|$)))*$/i;

export class Urgencies {
  readonly #app: App;
  readonly #rules: RouteRules;

  /** @param app with all its routes */
  constructor(app: App, rules: RouteRules) {
    this.#app = app;
    this.#rules = rules;
  }

  of({ method, url }: Pick<Request, "method" | "url">): Urgency {
    const path = this.#app.getPath({ url } as Request);
    // The routes of GET serve HEAD too.
    const [matches] = this.#app.router.match(method === "HEAD" ? "GET" : method, path);
    const route = routeIn(matches.map(([[, route]]) => route));
    return (route === null ? undefined : this.#rules.get(route)?.urgency) ?? "demands";
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
