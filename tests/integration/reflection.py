"""A gRPC client that knows nothing but the server's reflection service, whose own messages are described by hand here."""
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from harness import need_grpc

grpc = need_grpc()
_FIELD = descriptor_pb2.FieldDescriptorProto


def _message_class(pool, name):
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName(name))


def _reflection_pool():
    """grpc.reflection.v1alpha as far as it is needed: ask by symbol or file, list services."""
    file = descriptor_pb2.FileDescriptorProto(name="reflection.proto", package="grpc.reflection.v1alpha", syntax="proto3")

    def message(name, *fields):
        added = file.message_type.add(name=name)
        for number, field, kind, label in fields:
            entry = added.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                entry.type, entry.type_name = _FIELD.TYPE_MESSAGE, ".grpc.reflection.v1alpha." + kind
            else:
                entry.type = kind

    one, many = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED
    message("Request", (3, "file_by_filename", _FIELD.TYPE_STRING, one), (4, "file_containing_symbol", _FIELD.TYPE_STRING, one),
            (7, "list_services", _FIELD.TYPE_STRING, one))
    message("Files", (1, "file_descriptor_proto", _FIELD.TYPE_BYTES, many))
    message("Service", (1, "name", _FIELD.TYPE_STRING, one))
    message("Services", (1, "service", "Service", many))
    message("Error", (1, "error_code", _FIELD.TYPE_INT32, one), (2, "error_message", _FIELD.TYPE_STRING, one))
    message("Response", (4, "file_descriptor_response", "Files", one), (6, "list_services_response", "Services", one),
            (7, "error_response", "Error", one))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


class Client:
    """Calls any method of the server by name: client.call("scalewatch.v1.History/ListRuns", page_size=5)."""

    def __init__(self, address, credentials=None, compression=None):
        # A connection of its own: one that another client left would be of before a server's restart.
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1),
                   ("grpc.use_local_subchannel_pool", 1)]
        self.channel = (grpc.secure_channel(address, credentials, options, compression) if credentials
                        else grpc.insecure_channel(address, options, compression))
        own = _reflection_pool()
        self._request = _message_class(own, "grpc.reflection.v1alpha.Request")
        self._ask = self.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=_message_class(own, "grpc.reflection.v1alpha.Response").FromString)
        self._pool = descriptor_pool.DescriptorPool()
        self._known = set()

    def close(self):
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _reflect(self, **question):
        answer = next(iter(self._ask(iter([self._request(**question)]), timeout=10)))
        if answer.HasField("error_response"):
            raise LookupError(answer.error_response.error_message)
        return answer

    def services(self):
        return [service.name for service in self._reflect(list_services="*").list_services_response.service]

    def _learn(self, **question):
        for serialized in self._reflect(**question).file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(serialized)
            if file.name in self._known:
                continue
            self._known.add(file.name)
            for dependency in file.dependency:
                if dependency not in self._known:
                    self._learn(file_by_filename=dependency)
            self._pool.Add(file)

    def method(self, name):
        """The descriptor of "package.Service/Method"."""
        service, _, method = name.rpartition("/")
        try:
            found = self._pool.FindServiceByName(service)
        except KeyError:
            self._learn(file_containing_symbol=service)
            found = self._pool.FindServiceByName(service)
        return found.methods_by_name[method]

    def message(self, name):
        return _message_class(self._pool, name)

    def call(self, name, timeout=10, **fields):
        """A unary call; returns the answer as plain values with the contract's field names."""
        method = self.method(name)
        request = json_format.ParseDict(fields, _message_class(self._pool, method.input_type.full_name)())
        call = self.channel.unary_unary("/" + name, request_serializer=lambda message: message.SerializeToString(),
                                        response_deserializer=self.message(method.output_type.full_name).FromString)
        return json_format.MessageToDict(call(request, timeout=timeout), preserving_proto_field_name=True)

    def stream(self, name, requests, timeout=20, raw=False):
        """A call that streams both ways; raw: the requests are bytes already."""
        method = self.method(name)
        call = self.channel.stream_stream(
            "/" + name, request_serializer=(lambda data: data) if raw else (lambda message: message.SerializeToString()),
            response_deserializer=self.message(method.output_type.full_name).FromString)
        return call(requests, timeout=timeout)
