/** The database, as `TypeOrmModule.forRoot` of @nestjs/typeorm has it: it provides a DataSource, and closes it. */
import { type DynamicModule, Inject, Module, type OnApplicationShutdown } from "@nestjs/common";
import { DataSource, type DataSourceOptions } from "typeorm";

@Module({})
export class DatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(DataSource) private readonly db: DataSource) {}

  static forRoot(options: DataSourceOptions): DynamicModule {
    const db = { provide: DataSource, useFactory: () => new DataSource(options).initialize() };
    return { module: DatabaseModule, providers: [db], exports: [db], global: true };
  }

  async onApplicationShutdown(): Promise<void> {
    await this.db.destroy();
  }
}
