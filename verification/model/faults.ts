/** The faults in the programs of all families: a process stands still, and messages are lost. */
import fc from "fast-check";

/** What becomes of a call. `reset`: the connection breaks after the store has decided. */
export type Loss = "request" | "reply" | "reset";

export type FaultStep<Operation extends string> =
  | { readonly do: "pause"; readonly client: number; readonly ms: number }
  | {
      readonly do: "lose";
      readonly client: number;
      readonly message: Loss;
      readonly of: Operation;
      readonly times: number;
    };

export const anyLoss = fc.constantFrom<Loss>("reply", "reset", "request");

export function pausing(client: fc.Arbitrary<number>, lengthsMs: readonly number[]) {
  return fc.record({ do: fc.constant("pause"), client, ms: fc.constantFrom(...lengthsMs) });
}

export function losing<Operation extends string>(
  client: fc.Arbitrary<number>,
  operations: readonly Operation[],
) {
  return fc.record({
    do: fc.constant("lose"),
    client,
    message: anyLoss,
    of: fc.constantFrom(...operations),
    times: fc.constantFrom(1, 1, 3),
  });
}
