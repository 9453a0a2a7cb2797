/**
 * NestJS with TypeORM: a request writes an order and enqueues its mail in one transaction.
 *
 *   npx tsc -p examples/nestjs && node examples/nestjs/dist/main.js postgres://...
 *
 * You will see an order that is answered with 201 get its mail, and one whose card is declined leave nothing. The table of the
 * orders, example_nestjs_order, stays.
 */
import "reflect-metadata";
import { setTimeout as sleep } from "node:timers/promises";
import { Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import type { Leasehold } from "leasehold";
import { DataSource } from "typeorm";
import { DatabaseModule } from "./database.module.js";
import { LEASEHOLD, LeaseholdModule } from "./leasehold.module.js";
import { Orders, OrdersModule } from "./orders.module.js";

const [, , url = "postgres://localhost/app"] = process.argv;

const database = DatabaseModule.forRoot({
  type: "postgres",
  url,
  entities: [Orders],
  synchronize: true,
});

@Module({ imports: [LeaseholdModule.forRoot(url), database, OrdersModule] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ["error", "warn"] });
app.enableShutdownHooks();
await app.listen(0, "127.0.0.1");

await post({ customer: "ada@example.com", card: "valid" });
await post({ customer: "bob@example.com", card: "declined" });
const { tasks } = app.get<Leasehold>(LEASEHOLD);
console.log(`${await app.get(DataSource).manager.count(Orders)} orders`);
while ((await tasks.counts()).done < 1) await sleep(50);
console.log(`tasks: ${JSON.stringify(await tasks.counts())}`);
await app.close();

async function post(order: { customer: string; card: string }): Promise<void> {
  const response = await fetch(`${await app.getUrl()}/orders`, {
    method: "POST",
    headers: { "content-type": "application/json", connection: "close" },
    body: JSON.stringify(order),
  });
  console.log(`${order.customer}: ${response.status} ${await response.text()}`);
}
