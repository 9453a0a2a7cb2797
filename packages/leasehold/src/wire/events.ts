/** Of which stores GET /v1/events reports changes. */
export type EventTopic = "leases" | "tasks";
