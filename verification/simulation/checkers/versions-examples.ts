/** Each property of versions, violated alone, and what is nearly the same and legal. */
import type { Course, Example } from "./grants-examples.js";
import { VersionChecker } from "./versions.js";

const handled = (worker: number, task: number, shape: number): Course => {
  return (world) => {
    new VersionChecker(world).handled("t", { worker, task, shape });
    return undefined;
  };
};

export const VERSIONS: readonly Example[] = [
  {
    property: "no worker gets a later version",
    when: "a worker of version 1 runs a task of version 2",
    wrong: handled(1, 2, 1),
    right: handled(2, 1, 2),
  },
  {
    property: "data is upgraded",
    when: "a worker of version 2 gets data of version 1",
    wrong: handled(2, 1, 1),
    right: handled(1, 1, 1),
  },
];
