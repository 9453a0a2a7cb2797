import { expect, it } from "vitest";
import { inOrder, localized, servicesOf } from "./compose.js";

const FILE = "/repository/deploy/compose.yaml";
const TEXT = `
x-own: &own
  image: own
  environment: { STORE: "postgres://u@db:5432/x" }
services:
  web:
    <<: *own
    command: [serve, --host, 0.0.0.0]
    volumes: ["./web.yml:/etc/web.yml:ro", "data:/data"]
    depends_on: { job: { condition: service_completed_successfully } }
  job:
    <<: *own
    entrypoint: []
    restart: on-failure
    depends_on: { db: { condition: service_healthy } }
  db: { image: "postgres:17" }
`;

it("reads services with what they share, and their folders and files", () => {
  const [web, job, db] = servicesOf(TEXT, FILE, "/volumes");
  expect(web).toMatchObject({
    image: "own",
    environment: { STORE: "postgres://u@db:5432/x" },
    hasEntrypoint: true,
    isJob: false,
    mounts: [
      { from: "/repository/deploy/web.yml", to: "/etc/web.yml" },
      { from: "/volumes/data", to: "/data" },
    ],
  });
  expect(job).toMatchObject({ hasEntrypoint: false, isJob: true });
  expect(db).toMatchObject({ command: [], mounts: [], dependsOn: {} });
});

it("starts what others depend on first, and refuses a circle", () => {
  const services = servicesOf(TEXT, FILE, "/volumes");
  expect(inOrder(services).map(({ name }) => name)).toEqual(["db", "job", "web"]);
  const circle = TEXT.replace(
    'db: { image: "postgres:17" }',
    'db: { image: "x", depends_on: { web: { condition: service_started } } }',
  );
  expect(() => inOrder(servicesOf(circle, FILE, "/volumes"))).toThrow("depends on itself");
});

it("puts addresses and paths of this machine into what a container is told", () => {
  const places = {
    addresses: new Map([
      ["web", "127.0.77.1"],
      ["web-2", "127.0.77.2"],
      ["db", "127.0.0.1:6000"],
    ]),
    mounts: [
      { from: "/here/data", to: "/data" },
      { from: "/here/web.yml", to: "/etc/web.yml" },
    ],
  };
  const text =
    "web:4040 web-2:4040 postgres://u@db:5432/x 0.0.0.0 /data/file /database /etc/web.yml";
  expect(localized(text, "127.0.77.9", places)).toBe(
    "127.0.77.1:4040 127.0.77.2:4040 postgres://u@127.0.0.1:6000/x 127.0.77.9 /here/data/file /database /here/web.yml",
  );
});
