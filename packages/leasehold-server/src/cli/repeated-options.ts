import type { Command, Option } from "commander";

/** Refuses an option of one value that is given twice: the parser would keep the last and drop the others. */
export function refuseRepeated(command: Command): void {
  for (const option of command.options.filter(takesOneValue)) {
    let isGiven = false;
    command.on(`option:${option.name()}`, () => {
      const name = option.long ?? option.flags;
      if (isGiven) command.error(`error: ${name} is given more than once, and takes one value`);
      isGiven = true;
    });
  }
}

/** The help says which options collect their values. */
function takesOneValue({ required, optional, variadic, description }: Option): boolean {
  return (required || optional) && !variadic && !/\brepeatable\b/.test(description);
}
