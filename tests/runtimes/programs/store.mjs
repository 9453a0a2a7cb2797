// Works on the store that the argument names.
import * as library from "leasehold";
import { exercise } from "./exercise.mjs";

const [source = ""] = process.argv.slice(2);
const leasehold = await library.connect(source);
await exercise(library, leasehold, { hasTasks: !source.startsWith("redis:") });
await leasehold.close();
