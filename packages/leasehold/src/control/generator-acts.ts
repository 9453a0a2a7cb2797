/** Steering the generator: the act behind the command line and the server's routes. */
import type { GeneratorWanted } from "../tasks/port.js";
import type { By } from "./key-acts.js";
import type { Operator } from "./operations.js";

/** What is wanted from then on. */
export function steerGenerator(
  operator: Operator,
  namespace: string,
  change: Partial<GeneratorWanted>,
  by: By,
): Promise<GeneratorWanted> {
  return operator.perform(
    { ...by, namespace, action: `generator.${verbOf(change)}`, target: "generator" },
    async ({ generator }) => {
      const value = await generator.write(namespace, change);
      return { value, details: value };
    },
  );
}

function verbOf({ running }: Partial<GeneratorWanted>): "start" | "stop" | "rate" {
  if (running === undefined) return "rate";
  return running ? "start" : "stop";
}
