/** Leasehold in NestJS: a module to copy. It connects once, injects the client, and closes it with the application. */
import {
  type DynamicModule,
  Global,
  Inject,
  Module,
  type OnApplicationShutdown,
} from "@nestjs/common";
import { connect, type Leasehold, type SqlTransaction } from "leasehold";
import type { EntityManager } from "typeorm";

/** The transaction of TypeORM as a client: docs/transactions.md. */
export const clientOf = (manager: Pick<EntityManager, "query">): SqlTransaction => ({
  query: async (text, values) => ({ rows: await manager.query(text, values) }),
});

/** The token under which the client is injected: `@Inject(LEASEHOLD)`. */
export const LEASEHOLD = Symbol("leasehold");

@Global()
@Module({})
export class LeaseholdModule implements OnApplicationShutdown {
  constructor(@Inject(LEASEHOLD) private readonly leasehold: Leasehold) {}

  static forRoot(url: string): DynamicModule {
    const client = { provide: LEASEHOLD, useFactory: () => connect(url) };
    return { module: LeaseholdModule, providers: [client], exports: [client] };
  }

  /** Workers finish the tasks that they run. It is called at SIGTERM after `app.enableShutdownHooks()`. */
  async onApplicationShutdown(): Promise<void> {
    await this.leasehold.close();
  }
}
