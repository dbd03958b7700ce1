"""What the toy can do."""


class Base:
    @classmethod
    def supports(cls):
        return False


class Backend(Base):
    name = "toy"
