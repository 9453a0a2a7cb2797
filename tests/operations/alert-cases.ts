/**
 * Series of an hour, a value a minute in promtool's notation, and the alerts that they raise. Each case changes
 * some series of a healthy server; the series themselves come from a scrape.
 */

/** Named in the scrape from which the series come. */
export const RESOURCE = "orders/7";
export const ELECTION = "scheduler";
const INSTANCE = "instance";

export interface Change {
  readonly metric: string;
  /** With `instance`, that of another server. */
  readonly labels?: Readonly<Record<string, string>>;
  /** `0+1x30` grows by one a minute for half an hour, `_x5` is missing for five minutes. */
  readonly values: string;
}

export interface AlertCase {
  readonly name: string;
  readonly changes: readonly Change[];
  readonly minute?: number;
  /** With the labels that differ from alert to alert; none: no alert fires. */
  readonly firing: Readonly<Record<string, string>> | null;
}

const acquires = "leasehold_lease_acquire_attempts_total";
const renewals = "leasehold_lease_renew_attempts_total";
const releases = "leasehold_lease_release_attempts_total";
const endangered = "leasehold_resource_endangered_total";
const losses = "leasehold_lease_losses_total";
const terms = "leasehold_election_terms_total";
const tasks = "leasehold_task_events_total";
const depth = "leasehold_task_depth";
const responses = "leasehold_server_responses_total";
const refusals = "leasehold_fence_refusals_total";

/** Renewals of which a tenth fails, half of those within a second and half above. */
function slowRenewals(slowest: number): Change[] {
  const labels = { store: "leases", operation: "renew", outcome: "failed" };
  const bucket = (le: string, values: string) => ({
    metric: "leasehold_store_duration_seconds_bucket",
    labels: { ...labels, le },
    values,
  });
  return [
    { metric: renewals, labels: { outcome: "failed" }, values: "0+10x60" },
    { metric: renewals, labels: { outcome: "renewed" }, values: "0+90x60" },
    bucket("1", `0+${100 - slowest}x60`),
    ...["2.5", "5", "10", "30", "60", "300", "900", "3600", "+Inf"].map((le) =>
      bucket(le, "0+100x60"),
    ),
  ];
}

export const CASES: readonly AlertCase[] = [
  {
    name: "a resource loses its lease again and again",
    changes: [{ metric: endangered, labels: { resource: RESOURCE }, values: "1+1x60" }],
    firing: { alertname: "LeaseholdRepeatedLoss", resource: RESOURCE, severity: "warning" },
  },
  {
    name: "a resource appears with its first burst of losses",
    changes: [{ metric: endangered, labels: { resource: RESOURCE }, values: "_x17 4+0x30" }],
    firing: { alertname: "LeaseholdRepeatedLoss", resource: RESOURCE, severity: "warning" },
  },
  {
    name: "a burst of losses is over ten minutes later",
    changes: [{ metric: endangered, labels: { resource: RESOURCE }, values: "_x5 4+0x50" }],
    firing: null,
  },
  {
    name: "a resource with old losses was not scraped for a while",
    changes: [{ metric: endangered, labels: { resource: RESOURCE }, values: "9+0x7 _x5 9+0x40" }],
    firing: null,
  },
  {
    name: "renewals of unnamed resources fail, which may be a few of many",
    changes: [{ metric: endangered, labels: { resource: "" }, values: "0+9x60" }],
    firing: null,
  },
  {
    name: "renewals of a resource that is named other fail",
    changes: [{ metric: endangered, labels: { resource: "other" }, values: "0+9x60" }],
    firing: { alertname: "LeaseholdRepeatedLoss", resource: "other", severity: "warning" },
  },
  {
    name: "leases expire under their holders, and a revocation is no loss",
    changes: [
      { metric: losses, labels: { reason: "expired" }, values: "0+1x60" },
      { metric: losses, labels: { reason: "revoked" }, values: "0+5x60" },
    ],
    firing: { alertname: "LeaseholdLeasesLost", reason: "expired", severity: "warning" },
  },
  {
    name: "the leader of an election changes at several servers",
    changes: [
      { metric: terms, labels: { election: ELECTION }, values: "0+1x60" },
      { metric: terms, labels: { election: ELECTION, [INSTANCE]: "b" }, values: "0+1x60" },
    ],
    firing: {
      alertname: "LeaseholdFrequentLeaderChanges",
      election: ELECTION,
      severity: "warning",
    },
  },
  {
    name: "renewals fail and the store is slow",
    changes: slowRenewals(50),
    firing: { alertname: "LeaseholdRenewalsFailSlowStore", severity: "critical" },
  },
  {
    name: "renewals fail, but the store is quick",
    changes: slowRenewals(0),
    firing: null,
  },
  {
    name: "a lease is held for more than an hour",
    changes: [
      { metric: "leasehold_lease_held_age_max_seconds", values: "3000+60x60" },
      {
        metric: "leasehold_lease_held_age_max_seconds",
        labels: { [INSTANCE]: "b" },
        values: "5+0x60",
      },
    ],
    firing: { alertname: "LeaseholdLongHeld", severity: "warning" },
  },
  {
    name: "a lease has been held for an hour for less than five minutes",
    changes: [{ metric: "leasehold_lease_held_age_max_seconds", values: "3000+60x60" }],
    minute: 12,
    firing: null,
  },
  {
    name: "tasks are pending and no worker claims any",
    changes: [{ metric: depth, labels: { state: "pending" }, values: "3+0x60" }],
    minute: 30,
    firing: { alertname: "LeaseholdQueueStuck", severity: "critical" },
  },
  {
    name: "tasks are pending at one server and claimed at another",
    changes: [
      { metric: depth, labels: { state: "pending" }, values: "3+0x60" },
      { metric: tasks, labels: { event: "claimed", [INSTANCE]: "b" }, values: "0+1x60" },
    ],
    minute: 30,
    firing: null,
  },
  {
    name: "a task dies",
    changes: [{ metric: tasks, labels: { event: "dead" }, values: "0+0x14 1+0x40" }],
    firing: { alertname: "LeaseholdTasksDie", severity: "warning" },
  },
  {
    name: "guards refuse writes",
    changes: [{ metric: refusals, values: "0+1x60" }],
    firing: { alertname: "LeaseholdFencingRefusals", severity: "warning" },
  },
  {
    name: "releases fail",
    changes: [
      { metric: releases, labels: { outcome: "failed" }, values: "0+1x60" },
      { metric: releases, labels: { outcome: "released" }, values: "0+9x60" },
    ],
    firing: { alertname: "LeaseholdReleasesFail", severity: "warning" },
  },
  {
    name: "most attempts find leases held",
    changes: [
      { metric: acquires, labels: { outcome: "held" }, values: "0+540x60" },
      { metric: acquires, labels: { outcome: "acquired" }, values: "0+60x60" },
    ],
    minute: 40,
    firing: { alertname: "LeaseholdContention", severity: "info" },
  },
  {
    name: "the server returns errors",
    changes: [
      { metric: responses, labels: { class: "5xx" }, values: "0+10x60" },
      { metric: responses, labels: { class: "2xx" }, values: "0+90x60" },
    ],
    firing: { alertname: "LeaseholdServerErrors", severity: "critical" },
  },
  {
    name: "a tenant is refused for a minute",
    changes: [{ metric: "leasehold_server_held_back_max_seconds", values: "0x10 0+60x2 0x40" }],
    minute: 13,
    firing: { alertname: "LeaseholdTenantHeldBack", severity: "warning" },
  },
  {
    name: "a tenant is refused for half a minute",
    changes: [{ metric: "leasehold_server_held_back_max_seconds", values: "0x10 30 60 0x40" }],
    minute: 12,
    firing: null,
  },
  {
    name: "a server does not answer",
    changes: [{ metric: "up", values: "1x17 0x40" }],
    firing: {
      alertname: "LeaseholdServerDown",
      instance: "a",
      job: "leasehold",
      severity: "critical",
    },
  },
  {
    name: "a server was restarted",
    changes: [{ metric: "up", values: "1x17 0 1x40" }],
    firing: null,
  },
  ...[32, 55].map((minute) => ({
    name: `a healthy day, minute ${minute}`,
    changes: [
      { metric: endangered, labels: { resource: RESOURCE }, values: "0+0x29 1+0x30" },
      { metric: losses, labels: { reason: "expired" }, values: "0+0x29 1+0x30" },
      { metric: terms, labels: { election: ELECTION }, values: "1+0x29 2+0x30" },
      { metric: renewals, labels: { outcome: "renewed" }, values: "0+100x60" },
      { metric: renewals, labels: { outcome: "failed" }, values: "0+1x60" },
      { metric: "leasehold_lease_held_age_max_seconds", values: "10+1x60" },
      { metric: depth, labels: { state: "pending" }, values: "5+0x60" },
      { metric: tasks, labels: { event: "claimed" }, values: "0+10x60" },
      { metric: refusals, values: "0+0x29 1+0x30" },
      { metric: releases, labels: { outcome: "released" }, values: "0+100x60" },
      { metric: releases, labels: { outcome: "failed" }, values: "0+1x60" },
      { metric: acquires, labels: { outcome: "held" }, values: "0+60x60" },
      { metric: acquires, labels: { outcome: "acquired" }, values: "0+100x60" },
      { metric: responses, labels: { class: "2xx" }, values: "0+100x60" },
    ],
    minute,
    firing: null,
  })),
];
