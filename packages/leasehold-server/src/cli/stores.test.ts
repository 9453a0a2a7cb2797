import type { Stores } from "leasehold";
import { systemEnv } from "leasehold/internal";
import { expect, it } from "vitest";
import { GeneratorState } from "../generator/state.js";
import { shownUrl } from "./shown-url.js";
import { openWhere } from "./stores.js";

const notify = () => {};

it.each([
  ["pglite:.leasehold", "pglite:.leasehold"],
  ["memory:", "memory:"],
  ["http://127.0.0.1:4040", "http://127.0.0.1:4040"],
  ["postgres://me:secret@db/app?ssl=true", "postgres://me:***@db/app?ssl=true"],
  ["redis+sentinel://me:secret@a,b/name", "redis+sentinel://me:***@a,b/name"],
  ["etcds://me:secret@a,b:2379/x?cert=/c", "etcds://me:***@a,b:2379/x?cert=/c"],
  ["zookeepers://me:secret@a:2281/x?key=/k", "zookeepers://me:***@a:2281/x?key=/k"],
  ["consul://a:8500,b/locks?dc=x&token=secret", "consul://a:8500,b/locks?dc=x&token=***"],
  ["postgres://db/app?password=secret&ssl=true", "postgres://db/app?password=***&ssl=true"],
])("shows %s as %s", (url, shown) => expect(shownUrl(url)).toBe(shown));

it("keeps tasks and the generator's state in the control store", async () => {
  const both = await openWhere(
    { store: "memory:cli-a", control: "memory:cli-b", notify },
    systemEnv,
  );
  const second = await openWhere({ store: "memory:cli-b", control: undefined, notify }, systemEnv);
  const state = ({ backing }: Stores) => new GeneratorState(backing);
  await state(both).write("default", { running: true });
  expect(await state(second).read("default")).toMatchObject({ running: true });
  const key = { namespace: "default", resource: "r", leaseId: "0".repeat(48) };
  await both.leases.acquire([{ ...key, holder: "h", ttlMs: 1_000 }]);
  expect(await second.leases.get([key])).toEqual([null]);
  await both.close();
  await second.close();
});

it("closes the first store when the second cannot be opened", async () => {
  const opening = openWhere({ store: "memory:cli-c", control: "nonsense:", notify }, systemEnv);
  await expect(opening).rejects.toMatchObject({ code: "INVALID_OPTION" });
});
