/** Orders: a route that writes an order and enqueues its mail in one transaction of TypeORM, and the worker. */
import {
  Body,
  Controller,
  HttpException,
  Inject,
  Injectable,
  Module,
  type OnApplicationBootstrap,
  Post,
} from "@nestjs/common";
import { defineTask, type Leasehold } from "leasehold";
import { DataSource, EntitySchema } from "typeorm";
import { clientOf, LEASEHOLD } from "./leasehold.module.js";

interface Order {
  id: number;
  customer: string;
}

export const Orders = new EntitySchema<Order>({
  name: "example_nestjs_order",
  columns: {
    id: { type: Number, primary: true, generated: true },
    customer: { type: String },
  },
});
export const sendMail = defineTask<{ order: number; to: string }>("mail.confirm-order");

@Controller("orders")
class OrdersController {
  constructor(
    @Inject(DataSource) private readonly db: DataSource,
    @Inject(LEASEHOLD) private readonly leasehold: Leasehold,
  ) {}

  @Post()
  place(@Body() { customer, card }: { customer: string; card: string }): Promise<Order> {
    return this.db.transaction(async (manager) => {
      const order = await manager.save(Orders, { customer } as Order);
      const mail = { order: order.id, to: customer };
      await this.leasehold.tasks.enqueue(sendMail, mail, { client: clientOf(manager) });
      if (card === "declined") throw new HttpException("card declined", 402);
      return order;
    });
  }
}

@Injectable()
class MailWorker implements OnApplicationBootstrap {
  constructor(@Inject(LEASEHOLD) private readonly leasehold: Leasehold) {}

  onApplicationBootstrap(): void {
    this.leasehold.tasks.work([
      sendMail.handle(({ order, to }) => console.log(`mail for order ${order} to ${to}`)),
    ]);
  }
}

@Module({ controllers: [OrdersController], providers: [MailWorker] })
export class OrdersModule {}
