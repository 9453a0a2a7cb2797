/** What each route of a server needs, as it is declared. */
import {
  type RouteRules,
  rulesOf,
} from "../../../packages/leasehold-server/src/http/route-rules.js";
import { declareRoutes } from "../../../packages/leasehold-server/src/http/routes.js";
import { newApp } from "../../../packages/leasehold-server/src/http/routing.js";

/** Declaring a route asks its services for other ones, and calls none. */
const anything: object = new Proxy(() => anything, { get: () => anything });

export const ROUTE_RULES: RouteRules = declared();

function declared(): RouteRules {
  const app = newApp("");
  const [services, about] = [anything as never, anything as never];
  declareRoutes(app, services, about);
  return rulesOf(app);
}
