import type { App } from "../routing.js";
import type { Services } from "../services.js";
import { auditRoutes } from "./audit.js";
import { contentionRoute } from "./contention.js";
import { eventRoutes } from "./events.js";
import { generatorRoutes } from "./generator.js";
import { healthRoutes } from "./health.js";
import { keyRoutes } from "./keys.js";
import { leaseListRoutes, leaseRecordRoute } from "./lease-lists.js";
import { leaseServiceRoutes } from "./lease-service.js";
import { leaseRoutes } from "./leases.js";
import { lockRoutes } from "./locks.js";
import { metricsRoute } from "./metrics.js";
import { type About, openApiRoute } from "./openapi.js";
import { pauseRoutes } from "./pauses.js";
import { taskActRoutes } from "./task-acts.js";
import { taskBatchRoutes } from "./task-batches.js";
import { taskListRoutes, taskRoute } from "./task-lists.js";
import { holderRoutes, queueRoutes } from "./tasks.js";
import { tenantLimitRoutes } from "./tenant-limits.js";

/** All routes, in the order that matters: names below /api/tasks/ and /api/leases/ before ids, the document last. */
export function declareRoutes(app: App, services: Services, about: About): void {
  queueRoutes(app, services);
  taskListRoutes(app, services);
  taskBatchRoutes(app, services);
  taskActRoutes(app, services);
  holderRoutes(app, services);
  taskRoute(app, services);
  generatorRoutes(app, services);
  leaseRoutes(app, services);
  lockRoutes(app, services);
  leaseServiceRoutes(app, services);
  leaseListRoutes(app, services);
  leaseRecordRoute(app, services);
  eventRoutes(app, services);
  pauseRoutes(app, services);
  contentionRoute(app, services);
  auditRoutes(app, services);
  keyRoutes(app, services);
  tenantLimitRoutes(app, services);
  healthRoutes(app, services, about.version);
  metricsRoute(app, about);
  openApiRoute(app, about);
}
