"""The transcoder against Python's google.protobuf.json_format, on messages made at random."""
import random
import subprocess
import sys

try:
    from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, json_format, message_factory
    from google.protobuf import duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
except ImportError:
    print("Python has no google.protobuf: skipped")
    sys.exit(77)

MESSAGES = 300
TYPE = "stampede.tests.Kinds"


def text():
    letters = "abcXYZ019 _-/\\\"'\n\t\x01\x7fäß€漢🎉<>&"
    return "".join(random.choice(letters) for _ in range(random.choice([0, 1, 5, 30, 200])))


def octets():
    return random.randbytes(random.choice([0, 1, 2, 3, 4, 5, 100, 300]))


def integer(bits, signed):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return random.choice([0, 1, low, high, random.randint(low, high), random.randint(0, 300)])


def real(wide):
    import struct
    special = [0.0, 1.0, -2.5, 1e15, 1e-7, 123456789.0, float("inf"), float("-inf"), 0.1]
    if random.random() < 0.5:
        value = random.choice(special)
    else:
        value = random.uniform(-1e6, 1e6) * 10 ** random.randint(-30, 30)
    return value if wide else struct.unpack("f", struct.pack("f", value))[0]


def json_value(depth=0):
    kind = random.randint(0, 3 if depth > 3 else 5)
    if kind == 0:
        return None
    if kind == 1:
        return random.choice([0.0, 1.0, -3.25, 1e20, 0.1])
    if kind == 2:
        return text()
    if kind == 3:
        return random.random() < 0.5
    if kind == 4:
        return {text(): json_value(depth + 1) for _ in range(random.randint(0, 3))}
    return [json_value(depth + 1) for _ in range(random.randint(0, 3))]


def set_known(message):
    name = message.DESCRIPTOR.name
    message.SetInParent()
    if name == "Timestamp":
        message.seconds = random.choice([0, -62135596800, 253402300799, random.randint(-10**10, 10**10)])
        message.nanos = random.choice([0, 1, 500000000, 1000, 999999999])
    elif name == "Duration":
        sign = random.choice([1, -1])
        message.seconds = sign * random.choice([0, 1, 315576000000 - 1, random.randint(0, 10**6)])
        message.nanos = sign * random.choice([0, 1, 500000000, 1000, 999999999])
    elif name == "FieldMask":
        message.paths.extend(random.sample(["a", "a_b.c_d", "user.display_name", "x9"], random.randint(0, 3)))
    elif name == "Struct":
        for _ in range(random.randint(0, 3)):
            message[text()] = json_value()
    elif name == "Value":
        value = json_value()
        json_format.ParseDict(value, message)
    elif name == "ListValue":
        message.extend([json_value() for _ in range(random.randint(0, 3))])
    elif name == "Any":
        inner = random.choice([inner_message(), timestamp(), int64(), struct_object(), None])
        if inner is not None:
            message.Pack(inner)
    else:
        scalar_set(message, message.DESCRIPTOR.fields_by_name["value"])


def inner_message():
    inner = CLASSES["stampede.tests.Inner"]()
    fill(inner, 3)
    return inner


def timestamp():
    message = timestamp_pb2.Timestamp()
    set_known(message)
    return message


def int64():
    return wrappers_pb2.Int64Value(value=integer(64, True))


def struct_object():
    message = struct_pb2.Struct()
    set_known(message)
    return message


def scalar(field):
    kind = field.type
    if kind in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return real(kind == field.TYPE_DOUBLE)
    if kind in (field.TYPE_INT64, field.TYPE_SFIXED64, field.TYPE_SINT64):
        return integer(64, True)
    if kind in (field.TYPE_UINT64, field.TYPE_FIXED64):
        return integer(64, False)
    if kind in (field.TYPE_INT32, field.TYPE_SFIXED32, field.TYPE_SINT32):
        return integer(32, True)
    if kind in (field.TYPE_UINT32, field.TYPE_FIXED32):
        return integer(32, False)
    if kind == field.TYPE_BOOL:
        return random.random() < 0.5
    if kind == field.TYPE_STRING:
        return text()
    if kind == field.TYPE_BYTES:
        return octets()
    if field.enum_type.name == "NullValue":
        return 0
    return random.choice([0, 1, 5, -3, 77])


def scalar_set(message, field):
    setattr(message, field.name, scalar(field))


def message_set(message, depth):
    if message.DESCRIPTOR.full_name.startswith("google.protobuf."):
        set_known(message)
    else:
        message.SetInParent()
        if depth < 4:
            fill(message, depth + 1)


def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def fill(message, depth=0):
    for field in message.DESCRIPTOR.fields:
        if random.random() < 0.55:
            continue
        if is_map(field):
            for _ in range(random.randint(0, 3)):
                key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
                if value.message_type is not None:
                    message_set(getattr(message, field.name)[scalar(key)], depth)
                else:
                    getattr(message, field.name)[scalar(key)] = scalar(value)
        elif getattr(field, "is_repeated", None) or (not hasattr(field, "is_repeated") and field.label == 3):
            for _ in range(random.randint(0, 4)):
                if field.message_type is not None:
                    message_set(getattr(message, field.name).add(), depth)
                else:
                    getattr(message, field.name).append(scalar(field))
        elif field.message_type is not None:
            message_set(getattr(message, field.name), depth)
        else:
            scalar_set(message, field)


def load(path):
    pool = descriptor_pool.Default()
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as file:
        files.ParseFromString(file.read())
    for file in files.file:
        if not file.name.startswith("google/"):
            pool.AddSerializedFile(file.SerializeToString())
    get_class = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(pool).GetPrototype
    return {name: get_class(pool.FindMessageTypeByName(name))
            for name in (TYPE, "stampede.tests.Inner")}


def main():
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    print("seed", seed)
    random.seed(seed)
    filter_ = subprocess.Popen([sys.argv[1], sys.argv[2], TYPE], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)

    def ask(line):
        filter_.stdin.write(line.encode() + b"\n")
        filter_.stdin.flush()
        return filter_.stdout.readline().decode().rstrip("\n")

    wrong = 0

    def check(what, message, back, answer):
        nonlocal wrong
        # As dictionaries: the bytes in an Any may stand in another order.
        expected, got = json_format.MessageToDict(message), json_format.MessageToDict(back)
        if got != expected:
            wrong += 1
            print(f"--- {what} differs; we said\n{answer[:2000]}")
            for key in sorted({**expected, **got}):
                if expected.get(key, "(none)") != got.get(key, "(none)"):
                    print(key, "expected", expected.get(key, "(none)"), "got", got.get(key, "(none)"))

    for _ in range(MESSAGES):
        message = CLASSES[TYPE]()
        fill(message)
        for proto_names in (False, True):
            given = json_format.MessageToJson(message, indent=None, preserving_proto_field_name=proto_names)
            answer = ask("j " + given)
            back = CLASSES[TYPE]()
            if answer.startswith("!"):
                print(answer)
            else:
                back.ParseFromString(bytes.fromhex(answer))
            check("json_to_wire", message, back, given)
        for form in "ws":
            answer = ask(form + " " + message.SerializeToString().hex())
            back = CLASSES[TYPE]()
            try:
                json_format.Parse(answer, back)
            except json_format.ParseError as error:
                print(error)
            check("wire_to_json " + form, message, back, answer)
        if wrong > 3:
            break
    print(f"{MESSAGES} messages, {wrong} wrong")
    return 1 if wrong else 0


CLASSES = load(sys.argv[2])
sys.exit(main())
