import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * The files that take longest, the longest first (SLOW=1 prints them): begun last, they would run when the other
 * workers have nothing left.
 */
const LONG = [
  "examples",
  "tasks-conformance",
  "operations/cli",
  "simulator/simulator",
  "http-faults",
  "demo",
  "stories",
  "cli",
  "operations/canary",
  "console/tasks",
  "consul-faults",
  "conformance/consul",
  "http-conformance",
  "conformance/etcd",
  "conformance/postgres",
  "conformance/kubernetes",
  "conformance/zookeeper",
  "conformance/http",
  "operations/fuzz",
  "simulation",
  "console/overview",
  "lifecycle",
  "zookeeper-faults",
  "etcd-faults",
  "console/leases",
  "chaos/tasks",
  "postgres/index",
  "leaks",
  "histories",
  "kubernetes-faults",
  "operations/exposure",
  "package",
  "postgres-faults",
  "console/audit",
  "soak/soak",
  "clock-faults",
  "histories-engines",
];

/** What is known to be long first, then as vitest has it, which on a fresh clone only knows sizes. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => rankOf(a) - rankOf(b));
  }
}

function rankOf({ moduleId }: TestSpecification): number {
  const rank = LONG.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
  return rank < 0 ? LONG.length : rank;
}
