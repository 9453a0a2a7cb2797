/**
 * The list: what each bug replaces, and the check that catches it. `also` has further lines that must agree with the first,
 * so that the mistake is the same in all: each stands in exactly one place, in the file of the first unless it names another. They are mistakes
 * that people make; those with a name in the literature are named in docs/coordination.md too.
 */
import { ACCESS } from "./bugs/access.js";
import { CHECKERS } from "./bugs/checkers.js";
import { ELECTOR_BUGS, SHARDS_BUGS, SINGLETONS } from "./bugs/election.js";
import { CONSUL, ETCD, KUBERNETES, ZOOKEEPER } from "./bugs/engines.js";
import { FENCES } from "./bugs/fences.js";
import { HOLDING } from "./bugs/holding.js";
import { HTTP } from "./bugs/http.js";
import { KEYS } from "./bugs/keys.js";
import { KIND_BUGS } from "./bugs/kinds.js";
import { LIMIT_BUGS } from "./bugs/limits.js";
import { ONCE_BUGS } from "./bugs/once.js";
import { PAIRS } from "./bugs/pairs.js";
import { POSTGRES } from "./bugs/postgres.js";
import { REDIS } from "./bugs/redis.js";
import { RULES } from "./bugs/rules.js";
import { SCHEDULE_BUGS } from "./bugs/schedules.js";
import { STORE_KIT } from "./bugs/store-kit.js";
import { STRANGERS_1 } from "./bugs/strangers-1.js";
import { STRANGERS_2 } from "./bugs/strangers-2.js";
import { STRANGERS_3 } from "./bugs/strangers-3.js";
import { STRANGERS_4 } from "./bugs/strangers-4.js";
import { TASKS } from "./bugs/tasks.js";
import { WAITING } from "./bugs/waiting.js";

/** Those that it changes. */
const sourcesOf = ({ file, also = [] }) => [
  ...new Set([file, ...also.map((line) => line.file ?? file)]),
];

const BY_AREA = {
  rules: RULES,
  holding: HOLDING,
  waiting: WAITING,
  "store kit": STORE_KIT,
  postgres: POSTGRES,
  redis: REDIS,
  etcd: ETCD,
  zookeeper: ZOOKEEPER,
  consul: CONSUL,
  kubernetes: KUBERNETES,
  elector: ELECTOR_BUGS,
  singletons: SINGLETONS,
  shards: SHARDS_BUGS,
  tasks: TASKS,
  schedules: SCHEDULE_BUGS,
  keys: KEYS,
  kinds: KIND_BUGS,
  limits: LIMIT_BUGS,
  once: ONCE_BUGS,
  fences: FENCES,
  http: HTTP,
  access: ACCESS,
  "lines that agree": PAIRS,
  checkers: CHECKERS,
  "strangers 1": STRANGERS_1,
  "strangers 2": STRANGERS_2,
  "strangers 3": STRANGERS_3,
  "strangers 4": STRANGERS_4,
};

export const AREAS = Object.keys(BY_AREA);
export const BUGS = Object.entries(BY_AREA).flatMap(([area, bugs]) =>
  bugs.map((bug) => ({ area, sources: sourcesOf(bug), ...bug })),
);
