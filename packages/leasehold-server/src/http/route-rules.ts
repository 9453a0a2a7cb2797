/**
 * What a route needs, said where it is declared: who may use it, and how urgent its requests are. Both are read before
 * its handler runs, and are part of the OpenAPI document.
 *
 *   app.openapi(createRoute({ ...needs("hold", "keeps"), method, path, ... }), handler)
 *                             └─▶ rulesOf(app), by method and path
 */
import type { Context } from "hono";
import { matchedRoutes } from "hono/route";
import type { RouterRoute } from "hono/types";
import type { Need } from "./auth/access.js";
import type { App } from "./routing.js";

/**
 * keeps: always served, because it keeps or ends what is held, or helps to end an overload. waits: served up to the
 * tenant's limit. demands: served while the instance is not overloaded.
 */
export type Urgency = "keeps" | "waits" | "demands";

export interface RouteRule {
  /** Undefined: no caller may use it. Access must be granted explicitly. */
  readonly need: Need | undefined;
  readonly urgency: Urgency;
}
/** By method and path, as in the OpenAPI document. */
export type RouteRules = ReadonlyMap<string, RouteRule>;

interface Declared {
  readonly "x-needs"?: Need;
  readonly "x-urgency"?: Urgency;
}

export function needs(need: Need, urgency: Urgency = "demands"): Declared {
  return { "x-needs": need, "x-urgency": urgency };
}

export function ruleOf(route: object): RouteRule {
  const { "x-needs": need, "x-urgency": urgency = "demands" } = route as Declared;
  return { need, urgency };
}

/** @param app with all its routes */
export function rulesOf({ openAPIRegistry }: App): RouteRules {
  const rules = new Map<string, RouteRule>();
  for (const definition of openAPIRegistry.definitions) {
    if (definition.type !== "route") continue;
    const { method, path } = definition.route;
    rules.set(`${method.toUpperCase()} ${path}`, ruleOf(definition.route));
  }
  return rules;
}

/** The matching route in the spelling of the document; null: none. */
export function routeOf(context: Context): string | null {
  return routeIn(matchedRoutes(context));
}

/** The route among all that match a request, in the spelling of the document; null: none. */
export function routeIn(matched: readonly Pick<RouterRoute, "method" | "path">[]): string | null {
  // The first match that is not a middleware of all routes. GET routes also answer HEAD.
  const route = matched.find(({ path }) => path !== "/*");
  if (!route || route.method === "ALL") return null;
  return `${route.method} ${route.path.replaceAll(/:(\w+)/g, "{$1}")}`;
}
