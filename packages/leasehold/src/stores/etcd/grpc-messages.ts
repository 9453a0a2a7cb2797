/**
 * The parts of etcd's protocol that the store uses, from its rpc.proto, kv.proto and auth.proto. Keys
 * and values are `bytes` there. `string` has the same encoding, and all of ours are text.
 */
export const PROTO = `
syntax = "proto3";
package etcdserverpb;

service KV {
  rpc Range(RangeRequest) returns (RangeResponse);
  rpc Txn(TxnRequest) returns (TxnResponse);
}
service Watch {
  rpc Watch(stream WatchRequest) returns (stream WatchResponse);
}
service Lease {
  rpc LeaseGrant(LeaseGrantRequest) returns (LeaseGrantResponse);
  rpc LeaseTimeToLive(LeaseTimeToLiveRequest) returns (LeaseTimeToLiveResponse);
}
service Auth {
  rpc Authenticate(AuthenticateRequest) returns (AuthenticateResponse);
}
service Maintenance {
  rpc Status(StatusRequest) returns (StatusResponse);
  rpc Alarm(AlarmRequest) returns (AlarmResponse);
}

message ResponseHeader {
  int64 revision = 3;
}
message KeyValue {
  string key = 1;
  int64 create_revision = 2;
  int64 mod_revision = 3;
  string value = 5;
  int64 lease = 6;
}

message RangeRequest {
  enum SortOrder { NONE = 0; ASCEND = 1; DESCEND = 2; }
  enum SortTarget { KEY = 0; VERSION = 1; CREATE = 2; MOD = 3; VALUE = 4; }
  string key = 1;
  string range_end = 2;
  int64 limit = 3;
  int64 revision = 4;
  SortOrder sort_order = 5;
  SortTarget sort_target = 6;
  bool keys_only = 8;
  int64 max_create_revision = 13;
}
message RangeResponse {
  ResponseHeader header = 1;
  repeated KeyValue kvs = 2;
  int64 count = 4;
}
message PutRequest {
  string key = 1;
  string value = 2;
  int64 lease = 3;
}
message DeleteRangeRequest {
  string key = 1;
}
message Compare {
  enum CompareResult { EQUAL = 0; GREATER = 1; LESS = 2; NOT_EQUAL = 3; }
  enum CompareTarget { VERSION = 0; CREATE = 1; MOD = 2; VALUE = 3; LEASE = 4; }
  CompareResult result = 1;
  CompareTarget target = 2;
  string key = 3;
  oneof target_union {
    int64 create_revision = 5;
    int64 mod_revision = 6;
  }
  string range_end = 64;
}
message RequestOp {
  oneof request {
    RangeRequest request_range = 1;
    PutRequest request_put = 2;
    DeleteRangeRequest request_delete_range = 3;
    TxnRequest request_txn = 4;
  }
}
message ResponseOp {
  oneof response {
    RangeResponse response_range = 1;
    TxnResponse response_txn = 4;
  }
}
message TxnRequest {
  repeated Compare compare = 1;
  repeated RequestOp success = 2;
  repeated RequestOp failure = 3;
}
message TxnResponse {
  ResponseHeader header = 1;
  bool succeeded = 2;
  repeated ResponseOp responses = 3;
}

message WatchRequest {
  oneof request_union {
    WatchCreateRequest create_request = 1;
  }
}
message WatchCreateRequest {
  enum FilterType { NOPUT = 0; NODELETE = 1; }
  string key = 1;
  string range_end = 2;
  int64 start_revision = 3;
  repeated FilterType filters = 5;
}
message WatchResponse {
  ResponseHeader header = 1;
  bool created = 3;
  bool canceled = 4;
  int64 compact_revision = 5;
  string cancel_reason = 6;
  repeated Event events = 11;
}
message Event {
  enum EventType { PUT = 0; DELETE = 1; }
  EventType type = 1;
  KeyValue kv = 2;
}

message LeaseGrantRequest {
  int64 TTL = 1;
}
message LeaseGrantResponse {
  int64 ID = 2;
  int64 TTL = 3;
}
message LeaseTimeToLiveRequest {
  int64 ID = 1;
}
message LeaseTimeToLiveResponse {
  int64 TTL = 3;
}

message AuthenticateRequest {
  string name = 1;
  string password = 2;
}
message AuthenticateResponse {
  string token = 2;
}

message StatusRequest {}
message StatusResponse {
  ResponseHeader header = 1;
  string version = 2;
  int64 dbSize = 3;
}
enum AlarmType { NONE = 0; NOSPACE = 1; CORRUPT = 2; }
message AlarmRequest {
  enum AlarmAction { GET = 0; ACTIVATE = 1; DEACTIVATE = 2; }
  AlarmAction action = 1;
}
message AlarmMember {
  AlarmType alarm = 2;
}
message AlarmResponse {
  repeated AlarmMember alarms = 2;
}
`;
