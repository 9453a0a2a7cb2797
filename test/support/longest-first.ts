import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Takes a minute each, or nearly: begun last, they would run when the other workers have nothing left. */
const LONG = [
  /\/test\/stories\./,
  /\/test\/examples\./,
  /\/test\/cli\./,
  /\/test\/demo\./,
  /\/test\/chaos\/tasks\./,
  /\/test\/(http|tasks)-conformance\./,
  /\/test\/conformance\//,
  /\/test\/ops\/cli\./,
  /\/test\/web\/(simulator|tasks)\./,
  /\/test\/(etcd|zookeeper|http|redis|process)-faults\./,
];

/** What is known to be long first, then as vitest has it, which on a fresh clone only knows sizes. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => LONG.some((path) => path.test(moduleId));
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
