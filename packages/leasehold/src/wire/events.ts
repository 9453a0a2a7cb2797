/** What GET /v1/events reports: changes of leases, tasks that may be claimed, and the ends of tasks that are awaited. */
export type EventTopic = "leases" | "tasks" | "results";
