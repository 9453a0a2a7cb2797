import pg from "pg";
import { it } from "vitest";

it("passes", async () => {
  await new pg.Client({ connectionString: process.env["LEAKING_URL"] }).connect();
});
